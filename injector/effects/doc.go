// Package effects does what an admission does beside its answer: Kubernetes
// events. It is the one place that knows dry run, so that nothing outside can
// happen on one (KEP-576: a webhook with side effects skips them on dryRun).
//
// In: outcomes. Out: events on the pod's owner, or on the namespace where there
// is none, written in the background through a bounded queue. Imports: client-go.
package effects
