// Package survey looks at the pods of a cluster: which of them lack a sidecar that they would
// get now, or have it in another version.
//
// In: lists of pods, page by page, and the namespaces and templates in force. Out: for each
// page its pods, one after the other ([List.Each]), and the metrics of a [Counter], which looks
// at all namespaces again and again. What is held in memory is one pod, not a page, and a
// number for each namespace that has something to say.
//
// May import: injector/standing, templates, and of client-go nothing: the
// caller hands in how to list.
package survey
