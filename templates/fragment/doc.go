// Package fragment has what a template renders to for one pod: typed nodes, each with its directives
// parsed once.
//
// In: rendered values and directives (templates). Out: a tree of [Node] that the merge switches over.
// A node shares no memory with the template or the pod.
//
// It may import templates/podschema and templates/directive; no other package of this module.
package fragment
