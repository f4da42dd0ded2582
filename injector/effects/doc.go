// Package effects writes the side effects of an admission: Kubernetes events. No other
// package has side effects, and this package has none on a dry run, as KEP-576 requires.
//
// In: outcomes. Out: events on the pod's topmost owner or on its namespace, written in the
// background through a bounded queue.
//
// Everybody who reaches the webhook's port can forge a review. So an event is written about
// an object only after the API server, or the cache of namespaces, has confirmed that the object
// exists with the UID that the event names. Equal events are one, whose series is counted, and
// each namespace has a bounded rate.
//
// May import: reason, clientset, client-go, the metrics library. No other package of this module.
package effects
