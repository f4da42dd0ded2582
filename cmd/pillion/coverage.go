package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

// listsPerSecond is how many lists of pods a look may ask for. It has a client of its own, so
// that nothing else waits for it.
const listsPerSecond = 20

// newCoverage returns the function that counts the pods without their sidecars, and registers
// its metrics. It does nothing where pods are not to be counted.
func newCoverage(c serveConfig, config *rest.Config, pods webhook.Pods, ns *namespaces.Informer, ready func() error, registry prometheus.Registerer, log *slog.Logger) func(context.Context) error {
	if c.CountEvery == 0 {
		return func(ctx context.Context) error { <-ctx.Done(); return nil }
	}
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = listsPerSecond, listsPerSecond
	whole := func(ctx context.Context, name string, reads *templates.NamespaceReads) (templates.Namespace, bool) {
		found, err := ns.Get(ctx, name, reads, func(templates.Namespace) bool { return true })
		return found, err == nil
	}
	counter := coverage.NewCounter(coverage.Options{
		List: clientset.PodList(clientset.NewOrDie(own)), Comparer: drift.Comparer{Pipeline: pods.Pipeline, Registration: c.Registration()},
		Namespaces: ns.All, Namespace: ns.Cached, Whole: whole, Templates: pods.Templates, Ready: ready, Every: c.CountEvery, Logger: log,
	})
	registry.MustRegister(counter)
	return counter.Run
}
