package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/webhook"
)

// namespacedTemplates are the templates of namespaces, with a metric of them.
type namespacedTemplates struct{ *store.Namespaced }

// newNamespaced returns the templates of namespaces, attached to the set.
func (r *replica) newNamespaced(c caches) *namespacedTemplates {
	n := &namespacedTemplates{store.NewNamespaced(store.NamespacedOptions{
		Client: dynamic.NewForConfigOrDie(r.config), Compile: c.compile, Budget: webhook.Share(r.settings.Server.MemoryBytes(), webhook.TemplateShare), Logger: r.logger("templates of namespaces"),
	})}
	c.set.Attach(n.Namespaced)
	n.OnVerdicts(c.status.Observe)
	return n
}

// loaded is [store.Namespaced.Ready]. Where templates of namespaces are not served it returns nil.
func (n *namespacedTemplates) loaded() error {
	if n == nil {
		return nil
	}
	return n.Ready()
}

// count returns how many templates a namespace has, for the guard; nil where they are not served.
func (n *namespacedTemplates) count() func(namespace string) int {
	if n == nil {
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
