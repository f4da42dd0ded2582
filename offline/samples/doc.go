// Package samples holds the pods that every template is tried on before a cluster
// meets it.
//
// In: nothing. Out: one [Sample] for each kind of pod that templates get wrong.
// Each call of [Bundled] makes new ones.
//
// Imports: templates, for the type of a namespace. No file, no network.
package samples
