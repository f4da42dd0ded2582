// Package manifest reads the text of manifests, YAML or JSON.
//
// In: a file's text. Out: its documents; each as decoded JSON, where its values are
// in the file, and in which ways it does not fit a Go type. It decides nothing about
// what a manifest means.
//
// It may import templates/show, templates/nearest, templates/rawjson and
// templates/v1alpha1; no other package of this module.
package manifest
