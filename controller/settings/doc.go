// Package settings has the settings of the server.
//
// In: the text of the one file that the server runs by, which the chart renders into a ConfigMap. Out: validated
// [Settings], or an error that names every wrong one. Commands read the ConfigMap by the same function. Imports:
// viper, and of this module what settings are made for: controller/labels and injector/entries.
package settings
