// Package e2e tests Pillion as its users meet it: through kubectl, Helm and a real
// kube-apiserver, on a ground that package ground starts.
//
// In: bin/pillion and bin/pillion-webhook (`make build`) and the chart; for two tests, dist (`make release`). All tests of this package share one
// ground. Fourteen files are stories (STORIES in the Makefile), which `make test` tells; the rest is
// `make verify`'s. Those that take Pillion away from the others do not run in
// parallel, so that they are over before the rest begins.
package e2e
