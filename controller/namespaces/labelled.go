package namespaces

import (
	"iter"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/templates"
)

// Labelled are the namespaces of an [Informer] that are not being deleted, with what
// controller/labels needs to know of them.
type Labelled struct{ Informer *Informer }

// All goes over them as [Informer.All] does.
func (l Labelled) All() iter.Seq[labels.Namespace] {
	return func(yield func(labels.Namespace) bool) {
		labels, annotations := map[string]string{}, map[string]string{}
		for _, item := range l.Informer.cache.List() {
			ns, ok := item.(*cached)
			if !ok || ns.deleting {
				continue
			}
			ns.unpackInto(labels, annotations)
			if !yield(ns.labelled(templates.Namespace{Name: ns.name, Labels: labels, Annotations: annotations})) {
				return
			}
		}
	}
}

// Cached returns one of them. It reads nothing live.
func (l Labelled) Cached(name string) (labels.Namespace, bool) {
	ns, ok := l.Informer.cached(name)
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
