// Package coverage looks at the pods of a cluster: which of them lack a sidecar that they would
// get now, have it in another version, or are not ready.
//
// In: lists of pods, page by page, and the namespaces and templates in force. Out: the pods of a
// list, one after the other ([List.Each]), and the metrics of a [Counter], which looks at the pods
// again and again: of each namespace with injection, or of all together where most have it. Memory
// holds one pod, not a page, and a number for each namespace that has something to say.
//
// May import: injector/drift, templates, and nothing of client-go: the
// caller hands in how to list.
package coverage
