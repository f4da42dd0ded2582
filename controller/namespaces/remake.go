package namespaces

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// remakePause is the pause after each namespace that is remade, and remakeRetry the one
	// after a look at all in which one could not be read.
	remakePause = 50 * time.Millisecond
	remakeRetry = time.Second
	// remakeIdle is how long nothing is looked at where nobody says that there is something.
	remakeIdle = time.Hour
)

// TemplatesChanged says that templates may read other keys by now. It does not wait.
func (i *Informer) TemplatesChanged() { i.wake.Wake() }

// lacks reports whether templates name keys that were not known when the cache chose its part of
// a large namespace.
func (i *Informer) lacks(ns *cached) bool {
	return ns.part != nil && !i.o.Reads().Within(ns.part.reads)
}

// remakeUntil reads anew the large namespaces of which the templates read more by now, one after
// the other, until ctx ends. Until a namespace is read, nobody judges it by what the cache has.
func (i *Informer) remakeUntil(ctx context.Context) {
	wait := remakeIdle
	for waiting.Until(ctx, wait, i.wake) {
		wait = remakeIdle
		for _, item := range i.cache.List() {
			ns, ok := item.(*cached)
			if !ok || !i.lacks(ns) {
				continue
			}
			if err := i.remake(ctx, ns.name); err != nil {
				wait = remakeRetry
			}
			if !waiting.For(ctx, remakePause) {
				return
			}
		}
	}
}

// remake reads one namespace, and has the cache keep it anew. One that is gone by now leaves the
// cache by itself.
func (i *Informer) remake(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	object, err := i.o.Client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	return i.cache.Remake(object)
}
