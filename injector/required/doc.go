// Package required has the law of required templates: merging them into a final pod changes nothing.
//
// [Required] merges the required templates, in order, into the final pod. The mutating webhook sends the
// additions. The validating webhook refuses a pod with missing parts or contradictions, and an update that
// adds one.
//
// In: a pod, the required templates, each with a function that renders it, and the sidecars that other
// templates of the cluster rendered in this request. Out: a [Result]. The package never reads the record,
// because a pod's creator can forge it.
//
//	comparison.go        the comparison of a pod with all required templates
//	sidecar.go           one sidecar against its rendering, with the changes that spec.verify allows
//	variables.go         references to a template's variable resolve to that variable
//	mounts.go            no mount hides a template's mount, and no other container mounts its volumes
//	requiredmessages.go  all sentences for people
//
// May import: merge, apply, record (its type, for apply), templates/fragment, templates/podschema,
// templates/directive. No net/http and no client.
package required
