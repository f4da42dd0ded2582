// Package settings has the settings of the server.
//
// In: the text of the server's settings file, which the chart renders into a ConfigMap. Out: validated [Settings], or
// an error that names every wrong setting. Commands read the ConfigMap by the same function. Imports: viper,
// controller/labels, injector/entries and templates.
package settings
