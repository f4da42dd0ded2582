// Package manifest reads the text of manifests, YAML or JSON.
//
// In: a file's text. Out: its documents: each as decoded JSON, with the lines of its values and
// its differences from a Go type. The meaning of a manifest is the caller's.
//
// It may import templates/show, templates/nearest, templates/rawjson and
// templates/v1alpha1; no other package of this module.
package manifest
