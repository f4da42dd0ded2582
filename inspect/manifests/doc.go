// Package manifests reads templates, namespaces and pods of files, and injects into the pods as the webhook does.
//
// In: the flags of a command, files of YAML or JSON, and the library. Out: a set of templates, namespaces, and for
// each document the object with its sidecars, with notes about its pods. The files decide everything: with the same
// files, flags and time the result is the same.
//
// May import: charts, inspect, injector, templates, controller/settings. No client.
package manifests
