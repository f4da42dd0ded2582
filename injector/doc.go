// Package injector is the admission path: from the bytes of an AdmissionReview
// to the bytes of its answer.
//
//	HTTP request → decode review → decide → render → merge → patch → encode → HTTP response
//	               (review.go)     └────────── pipeline.go ───────┘   (handler.go)
//
// The [Pipeline] is pure: the same pod, namespace, templates and configuration
// give the same bytes, and the command line runs it offline. The [Handler] is
// the thin edge around it; the [Server] owns listeners and the order of stopping.
//
// May import: policy, merge, patch, reason, effects, templates, net/http. Knows
// nothing of certificates beyond a function that returns one.
package injector
