package namespaces

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/templates"
)

// AllLabelled goes over the namespaces as [Informer.All] does, with what controller/labels needs to
// know of them.
func (i *Informer) AllLabelled() iter.Seq[labels.Namespace] {
	return func(yield func(labels.Namespace) bool) {
		m := metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}
		for _, item := range i.cache.List() {
			ns, ok := item.(*cached)
			if !ok || ns.deleting {
				continue
			}
			clear(m.Labels)
			clear(m.Annotations)
			ns.unpack(&m)
			if !yield(ns.labelled(templates.Namespace{Name: ns.name, Labels: m.Labels, Annotations: m.Annotations})) {
				return
			}
		}
	}
}

// Labelled returns one of them. It reads nothing live.
func (i *Informer) Labelled(name string) (labels.Namespace, bool) {
	ns, ok := i.cached(name)
	if !ok || ns.deleting {
		return labels.Namespace{}, false
	}
	return ns.labelled(ns.namespace()), true
}

func (c *cached) labelled(ns templates.Namespace) labels.Namespace {
	labelled := labels.Namespace{Namespace: ns, ResourceVersion: c.version, ByHand: c.byHand, Unowned: c.unowned}
	if c.part != nil {
		labelled.Keys = c.part.reads
	}
	return labelled
}
