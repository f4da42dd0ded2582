// Package injector turns a pod into the pod with its sidecars.
//
//	decide → render → merge → patch
//
// In: a pod, its namespace's metadata and the templates in force, as a [Request].
// Out: an [Outcome]: the intended pod, the JSON patch that gives it, or why the pod is
// refused, with warnings and what became of each template. [Pipeline.Inject] answers
// for a pod that is created, [Pipeline.Verify] for the final pod, after all webhooks.
//
// The [Pipeline] is pure: the same pod, namespace, templates and configuration give
// the same bytes, so that the webhook and the command line share it. An error is
// Pillion's own fault; a refusal is an Outcome.
//
// May import: policy, merge, patch, reason, templates. Knows nothing of HTTP, reviews,
// metrics or certificates.
package injector
