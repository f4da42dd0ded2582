package namespaces

import "github.com/pillion-dev/pillion/injector/kept"

// Labelled are the namespaces of an [Informer] that are not being deleted, with what
// injector/keeper needs to know of them.
type Labelled struct{ Informer *Informer }

// List returns them, in no particular order.
func (l Labelled) List() []kept.Namespace {
	var all []kept.Namespace
	for _, item := range l.Informer.cache.List() {
		if ns, ok := item.(*cached); ok && !ns.deleting {
			all = append(all, kept.Namespace{Namespace: ns.namespace(), ByHand: ns.byHand})
		}
	}
	return all
}

// Cached returns one of them. It reads nothing live.
func (l Labelled) Cached(name string) (kept.Namespace, bool) {
	ns, ok := l.Informer.cached(name)
	if !ok || ns.deleting {
		return kept.Namespace{}, false
	}
	return kept.Namespace{Namespace: ns.namespace(), ByHand: ns.byHand}, true
}
