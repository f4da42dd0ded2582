package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
	"github.com/pillion-dev/pillion/webhook"
)

// namespacedTemplates are the parts that serve the templates of namespaces.
type namespacedTemplates struct {
	*store.Namespaced
	status *store.StatusWriter
	served bool
}

// newNamespacedTemplates attaches the templates of namespaces to the set. Where they are not served it
// only says so in their statuses. It returns nil where no templates of the cluster are.
func newNamespacedTemplates(c serveConfig, client kubernetes.Interface, metadataClient metadata.Interface, compile templates.Options, set *store.Templates, log *slog.Logger) *namespacedTemplates {
	if !c.ClusterTemplates {
		return nil
	}
	n := &namespacedTemplates{
		Namespaced: store.NewNamespaced(store.NamespacedOptions{
			Metadata: metadataClient, Group: c.Prefix, Compile: compile, Budget: webhook.Share(c.MemoryLimit, webhook.TemplateShare), Logger: log,
			SwitchedOff: !c.NamespacedTemplates, Excluded: c.Excluded,
			Read: func(ctx context.Context, namespace, name string) ([]byte, error) {
				return client.CoreV1().RESTClient().Get().AbsPath("/apis", c.Prefix, v1alpha1.Version, "namespaces", namespace, store.NamespacedResource, name).
					SetHeader("Accept", "application/json").DoRaw(ctx)
			},
		}),
		status: store.NewNamespacedStatusWriter(metadataClient, c.Prefix, log),
	}
	if n.served = c.NamespacedTemplates; n.served {
		set.Attach(n.Namespaced)
	}
	n.OnVerdicts(n.status.Observe)
	return n
}

// loaded is [store.Namespaced.Loaded]. Where templates of namespaces are not served it returns nil.
func (n *namespacedTemplates) loaded() error {
	if n == nil || !n.served {
		return nil
	}
	return n.Loaded()
}

// run follows the templates, and writes their statuses while it may.
func (n *namespacedTemplates) run(mayWrite func() error) []func(context.Context) error {
	if n == nil {
		return nil
	}
	return []func(context.Context) error{n.Run, once(mayWrite, n.status.Run)}
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
