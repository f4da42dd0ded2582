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
// It is not k8s.io/client-go/tools/events. That recorder remembers every event for six minutes
// without a bound and retries each in a goroutine of its own: 20,000 forged reviews are 20,000
// writes and 21 MiB, and 53 MiB and 20,000 goroutines while the API server is away (measured;
// here: 1.3 MiB). It names events by the time, so each replica writes one of its own, and it
// leaves the text out of what makes events equal: of three texts on one object, it writes one.
//
// May import: controller/reconcile, injector/owner, injector/reason, client-go, the metrics library. No other package of this module.
package events
