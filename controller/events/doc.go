// Package events writes Kubernetes events about admissions.
//
// In: the results of admissions ([Recorder.Record]). Out: events on the pod's topmost owner or on
// its namespace, written in the background. A dry run has none, as KEP-576 requires.
//
// Everybody who reaches the webhook's port can forge a review. So an event is written about
// an object only after the API server, or the cache of namespaces, has confirmed that the object
// exists with the UID that the event names. The name of an event is made of its object and its
// text, so equal events of all replicas are one, whose series is counted. Each namespace has a
// bounded rate, all together have another one, and what is held in memory is bounded.
//
// It is not k8s.io/client-go/tools/events, whose recorder remembers every event for six minutes
// without a bound, names events by the time, so that each replica writes one of its own, leaves
// the text out of what makes events equal, and tells nobody of events that it drops.
//
// May import: injector/reason, client-go, the metrics library. No other package of this module.
package events
