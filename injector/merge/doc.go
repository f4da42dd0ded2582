// Package merge makes the plan: what all templates together want in a pod,
// place by place, or who contradicts whom.
//
// In: the base pod, which is the pod as its author wrote it, and the rendered
// fragments. Out: a [Plan], which has the wanted pod and the [Change] of each
// place; or a [ConflictError] (a team or a template's author can act on it), a
// [FragmentError] (the template is at fault) or a [PodError] (the pod has no
// valid shape). The merge does not know whether the pod was injected before, so
// its refusals and warnings are the same on every call. Inputs are never
// modified, unknown fields are never touched, and the same input gives the same
// bytes.
//
// How a place is decided: first each template meets the base pod by itself
// (settle.go). It adds, agrees, replaces, refuses, or leaves the pod's value
// alone. Then the templates that want something in one place have to agree. The texts
// that they join to it come last (join.go).
//
// A fragment is read once (read.go), into nodes (node.go): what each value says, with its
// directives parsed.
//
// The identity of items, equality and the API's defaults are the schema's
// (templates/podschema), the grammar of directives is templates/directive's.
// What the API server's own admission sets is in admission.go; what it would add to
// the plan's pod is in token.go and tolerations.go.
//
// May import: templates/podschema, templates/directive, apimachinery. No other
// package of this module, no net/http and no client.
package merge
