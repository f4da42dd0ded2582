package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
)

// listsPerSecond is how many lists of pods a look may ask for. It has a client of its own, so
// that nothing else waits for it.
const listsPerSecond = 20

// countPods makes what counts the pods without their sidecars, where they are to be counted.
func (r *replica) countPods() {
	if r.c.Pods.CountEvery == 0 {
		return
	}
	own := rest.CopyConfig(r.config)
	own.QPS, own.Burst = listsPerSecond, listsPerSecond
	namespace := func(ctx context.Context, name string) (templates.Namespace, error) {
		return r.namespaces.Get(ctx, name, func(templates.Namespace) bool { return true })
	}
	counter := coverage.NewCounter(coverage.Options{
		List: clientset.PodList(clientset.NewOrDie(own)), Comparer: drift.Comparer{Pipeline: r.pods.Pipeline, Registration: r.c.Registration()},
		Namespaces: r.namespaces.All, Namespace: namespace, Templates: r.pods.Templates, Ready: r.loaded, Every: r.c.Pods.CountEvery, Logger: r.logger("coverage"),
	})
	r.registry.MustRegister(counter)
	r.run(counter.Run)
}
