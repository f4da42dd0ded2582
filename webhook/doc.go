// Package webhook answers admission reviews over HTTP.
//
//	HTTP request → middleware → decode → webhook → encode → HTTP response
//	               (bounds)                          └─→ effects: metrics, log, events
//
// In: AdmissionReviews as JSON. Out: AdmissionReviews with an answer, metrics,
// log lines and events.
//
// Each [Webhook] takes a decoded [Review] and returns a [Response]. There are six
// webhooks, each in a file of its own: mutate.go injects into pods, verifypods.go checks
// final pods against the required templates, guard.go checks SidecarTemplates,
// namespace.go labels namespaces, preview.go warns the author of a workload of the
// outcome for its pods, uninstall.go holds up Helm while labels are removed. The [Middleware]
// serves all of them, and no webhook sees HTTP. The [Server] owns the listeners and the order of stopping.
//
// May import: controller's events, labels, proof and uninstall; injector with its keys, owner, patch, policy and
// reason; templates, net/http and Prometheus. The package gets its certificate from a function, and has no
// client of a cluster.
package webhook
