package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/upgradegate"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

// namedIn reports whether namespaces name a template.
func (c serveConfig) namedIn(ns *namespaces.Informer) func(template string) bool {
	return func(template string) bool {
		return len(c.Usage().Naming([]string{template}, ns.All())) > 0
	}
}

// readsWorkloads has the webhooks read workloads, if the settings let them.
func (c serveConfig) readsWorkloads(config *rest.Config, ns *namespaces.Informer, guard *webhook.GuardOptions, preview *webhook.PreviewOptions) {
	if !c.ReadWorkloads {
		return
	}
	client := clientset.NewOrDie(config) // of its own: nothing else waits for pages of workloads
	w := usage.NewWorkloads(client.CoreV1().RESTClient(), c.Usage(), ns.Cached)
	guard.Workloads, preview.Workloads = w.Naming, w.In
}

// newCounter returns the counter of what namespaces use. It hears of changes of templates
// and namespaces.
func newCounter(c serveConfig, set *store.Templates, ns *namespaces.Informer, ready func() error, registry prometheus.Registerer) *usage.Counter {
	counter := usage.NewCounter(usage.CounterOptions{Rules: c.Usage(), Templates: set.Snapshot, Namespaces: ns.All, Ready: ready})
	registry.MustRegister(counter)
	set.OnChange(func(*templates.Set) { counter.Changed() })
	counter.OnCount(func(usage.Count) { set.UsageChanged() })
	ns.OnChange(func(string) { counter.Changed() })
	return counter
}

// newUpgradeGate returns the check that no template in use is missing, and the function that
// records the templates in use.
func newUpgradeGate(c serveConfig, client kubernetes.Interface, counter *usage.Counter, ns *namespaces.Informer, serving func() error, registry prometheus.Registerer, log *slog.Logger) ([]webhook.Check, func(context.Context) error) {
	if c.InUse == "" {
		return nil, func(ctx context.Context) error { <-ctx.Done(); return nil }
	}
	gate := upgradegate.New(upgradegate.Options{
		ConfigMaps: client.CoreV1().ConfigMaps(c.Namespace), Name: c.InUse, Instance: instance(), Rules: c.Usage(),
		Namespaces: ns.All, Allowed: c.AllowMissingTemplates, Serving: serving, Logger: log,
	})
	registry.MustRegister(gate)
	counter.OnCount(gate.Counted)
	return []webhook.Check{{Name: "templates in use", Ready: gate.Ready}}, gate.Run
}

// checkAll returns what the checks say is missing, or nil.
func checkAll(checks []webhook.Check) error {
	for _, c := range checks {
		if err := c.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// once returns a run that begins when something is ready.
func once(ready func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !waiting.UntilReady(ctx, 20*time.Millisecond, ready) {
			return nil
		}
		return run(ctx)
	}
}
