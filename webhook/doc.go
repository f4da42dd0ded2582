// Package webhook answers admission reviews over HTTP.
//
//	HTTP request → middleware → decode → webhook → encode → HTTP response
//	               (bounds)                          └─→ effects: metrics, log, events
//
// In: AdmissionReviews as JSON. Out: AdmissionReviews with an answer, metrics,
// log lines and events.
//
// Each [Webhook] takes a decoded [Review] and returns a [Response]. There are
// five, one a file: mutate.go injects into pods, verify.go checks final pods
// against the required templates, guard.go checks SidecarTemplates, namespace.go
// keeps the labels of namespaces, preview.go says at the workload what its pods will
// meet. The [Middleware] serves all of them, and no webhook sees HTTP. The [Server] owns the
// listeners and the order of stopping.
//
// May import: controller's events, labels and proof; injector with its keys, owner, patch, policy and
// reason; templates, net/http and Prometheus. Knows nothing of certificates beyond a function that returns one,
// and has no client of a cluster.
package webhook
