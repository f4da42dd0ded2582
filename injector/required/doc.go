// Package required has the law of required templates: merging them into a final pod changes nothing.
//
// [Required] merges the required templates, in order, into the pod as all else has left it. A mutating
// webhook sends what it adds. A validating webhook refuses a pod to which it would add something, or
// that contradicts a template. Update is by the same function: an update may add no difference.
//
// In: a pod, the required templates, each with a function that renders it, and the sidecars that other
// templates of the cluster rendered in this request. Out: a [Result]. Nothing here reads the record:
// whoever creates a pod can forge it.
//
//	required.go   the function
//	container.go  a sidecar of the pod is as the template renders it, but for what spec.verify accepts
//	variables.go  what refers to a variable of a template gets that one
//	mounts.go     nothing hides what a template mounts, and no other container mounts its volumes
//
// May import: merge, apply, record (its type, for apply), templates/fragment, templates/podschema,
// templates/directive. No net/http and no client.
package required
