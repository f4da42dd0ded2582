// Package coverage counts the pods of a cluster that lack a sidecar that they would get now, have
// it in another version, or are not ready.
//
// In: lists of pods, page by page, and the namespaces and templates in force. Out: the pods of a
// list, one after the other ([List.Each]), and the metrics of a [Counter], which scans the pods of
// all namespaces with injection at intervals. The memory is that of one pod, not of a page, and of
// a count for each namespace with such pods.
//
// May import: injector/drift, templates, and nothing of client-go: the caller supplies the list
// requests.
package coverage
