// Package merge merges rendered fragments into a pod by the API's own merge
// keys, and knows which parts of a pod are Pillion's own.
//
// In: a pod and fragments as encoding/json decodes them with UseNumber, and the
// [Status] that the pod carries. Out: the intended pod, the edits that lead
// there, built while merging and never by comparing pods, and warnings; or a
// [ConflictError] (a team or template author can act on it), a [FragmentError]
// (the template is at fault) or a [PodError] (the pod has no valid shape).
// Inputs are never modified, unknown fields are never touched, and the same
// input gives the same bytes.
//
// Laws, of which the tests are the proof: Base(Merge(p)) is p, and merging
// again changes nothing, also after other webhooks and the API server have
// changed the pod in between.
//
// What identifies an item is the schema's matter (templates/podschema). Product
// decisions, each a short list here: which atomic lists mean sets and which
// objects are one value (shape.go), the API's defaults (defaults.go), what the
// API server's own admission sets (admission.go).
//
// It may import templates/podschema and apimachinery; no other package of this
// module, no net/http and no client.
package merge
