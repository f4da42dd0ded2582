package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
)

// listsPerSecond bounds the lists of pods that a count requests. The counter has a client of its own, so
// that it delays nothing else.
const listsPerSecond = 20

// newPodCounter returns the counter of pods without or with outdated sidecars.
func (r *replica) newPodCounter() *coverage.Counter {
	own := rest.CopyConfig(r.config)
	own.QPS, own.Burst = listsPerSecond, listsPerSecond
	namespace := func(ctx context.Context, name string) (templates.Namespace, error) {
		return r.namespaces.Get(ctx, name, func(templates.Namespace) bool { return true })
	}
	counter := coverage.NewCounter(coverage.Options{
		List: clientset.PodList(clientset.NewOrDie(own)), Comparer: drift.Comparer{Pipeline: r.pods.Pipeline, Registration: r.settings.Registration()},
		Namespaces: r.namespaces.All, Namespace: namespace, Templates: r.pods.Templates, Ready: r.loaded, Every: r.settings.Pods.CountEvery, Logger: r.logger("coverage"),
	})
	r.registry.MustRegister(counter)
	return counter
}
