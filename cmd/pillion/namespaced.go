package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
	"github.com/pillion-dev/pillion/webhook"
)

// namespacedTemplates are the parts that serve the templates of namespaces.
type namespacedTemplates struct {
	*store.Namespaced
	status *store.StatusWriter
	served bool
}

// readNamespaced attaches the templates of namespaces to the set. Where they are not served it only
// says so in their statuses.
func (r *replica) readNamespaced() {
	c := r.c
	if !c.ClusterTemplates {
		return
	}
	log := r.logger("templates of namespaces")
	r.namespaced = &namespacedTemplates{
		Namespaced: store.NewNamespaced(store.NamespacedOptions{
			Metadata: r.metadata, Group: c.Prefix, Compile: r.compile, Budget: webhook.Share(c.MemoryLimit, webhook.TemplateShare), Logger: log,
			SwitchedOff: !c.NamespacedTemplates, Excluded: c.Excluded,
			Read: func(ctx context.Context, namespace, name string) ([]byte, error) {
				return r.client.CoreV1().RESTClient().Get().AbsPath("/apis", c.Prefix, v1alpha1.Version, "namespaces", namespace, store.NamespacedResource, name).
					SetHeader("Accept", "application/json").DoRaw(ctx)
			},
		}),
		status: store.NewNamespacedStatusWriter(r.metadata, c.Prefix, log),
		served: c.NamespacedTemplates,
	}
	r.namespaced.status.Acceptance = r.oracle().acceptance
	if c.NamespacedTemplates {
		r.set.Attach(r.namespaced.Namespaced)
	}
	r.namespaced.OnVerdicts(r.namespaced.status.Observe)
	r.registry.MustRegister(r.namespaced)
}

// loaded is [store.Namespaced.Loaded]. Where templates of namespaces are not served it returns nil.
func (n *namespacedTemplates) loaded() error {
	if n == nil || !n.served {
		return nil
	}
	return n.Loaded()
}

// count returns how many templates a namespace has, for the guard; nil where they are not served.
func (n *namespacedTemplates) count() func(namespace string) int {
	if n == nil || !n.served {
		return nil
	}
	return n.Count
}

var namespacedDesc = prometheus.NewDesc("pillion_namespaced_templates", "NamespacedSidecarTemplates by the reason of their condition Ready: Compiled, or why they are not in force.", []string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (n *namespacedTemplates) Describe(ch chan<- *prometheus.Desc) { ch <- namespacedDesc }

// Collect implements prometheus.Collector.
func (n *namespacedTemplates) Collect(ch chan<- prometheus.Metric) {
	for reason, count := range n.Reasons() {
		ch <- prometheus.MustNewConstMetric(namespacedDesc, prometheus.GaugeValue, float64(count), reason)
	}
}
