// Package samples holds the pods that lint injects every template into.
//
// In: nothing. Out: one [Sample] for each kind of pod that templates often get
// wrong. Each call of [Bundled] makes new samples.
//
// May import: templates, for the type of a namespace, and its podschema. No file, no network.
package samples
