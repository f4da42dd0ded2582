// Package fragment has the rendered fragment of a template for one pod: typed nodes with parsed directives.
//
// In: rendered values and directives (templates). Out: a tree of [Node] for the merge. A node shares no memory
// with the template or the pod.
//
// It may import templates/podschema and templates/directive; no other package of this module.
package fragment
