// Package effects writes the side effects of an admission: Kubernetes events. No other
// package has side effects, and this package has none on a dry run, as KEP-576 requires.
//
// In: outcomes. Out: events on the pod's owner, or on the namespace of a pod without an
// owner, written in the background through a bounded queue.
//
// May import: reason, client-go. No other package of this module.
package effects
