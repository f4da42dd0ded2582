// Package events writes Kubernetes events about admissions.
//
// In: the results of admissions ([Recorder.Record]). Out: events on the pod's topmost owner or on
// its namespace, written in the background by client-go's recorder. A dry run has none, as KEP-576 requires.
//
// Everybody who reaches the webhook's port can forge a review. So an event is written about
// an object only after the API server, or the cache of namespaces, has confirmed that the object
// exists with the UID that the review names. Each namespace has a bounded rate, and all together
// have another one.
//
// May import: injector/owner, injector/reason, client-go, the metrics library. No other package of this module.
package events
