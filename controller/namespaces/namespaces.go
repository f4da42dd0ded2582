package namespaces

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/templates"
)

var resource = corev1.SchemeGroupVersion.WithResource("namespaces")

// maxPage is the number of namespaces in a page of a list: with managed fields, a namespace can have 3 MB.
const maxPage = 50

// Options are what [New] needs. All fields are required.
type Options struct {
	Client metadata.Interface
	Logger *slog.Logger
}

// Informer has the metadata of all namespaces in a cache.
type Informer struct {
	cache *follow.Cache
	live  *live
	// listeners are those of [Informer.OnChange].
	listeners []func(name string)
}

// New returns an informer. Its cache is empty until [Informer.Run] fills it.
func New(o Options) *Informer {
	i := &Informer{live: newLive(o.Client)}
	namespaces := o.Client.Resource(resource)
	i.cache = follow.New(follow.Options{
		Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Logger: o.Logger,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.Limit = maxPage
			return namespaces.List(ctx, options)
		},
		Watch: namespaces.Watch, Stream: o.Client,
		Transform: func(object any) (any, error) {
			if ns, ok := object.(*metav1.PartialObjectMetadata); ok {
				return newNamespace(ns), nil
			}
			return object, nil
		},
		Changed: func(name string) {
			for _, f := range i.listeners {
				f(name)
			}
		},
	})
	return i
}

// Run keeps the cache up to date until ctx ends.
func (i *Informer) Run(ctx context.Context) { i.cache.Run(ctx) }

// Ready returns nil once the cache has been filled. Before that, the error says why the cache is still empty.
func (i *Informer) Ready() error {
	if i.cache.HasSynced() {
		return nil
	}
	switch err := i.cache.Err(); {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("namespaces: list and watch of namespaces are not permitted; the chart's ClusterRole grants them: %w", err)
	case err != nil:
		return fmt.Errorf("namespaces: listing namespaces failed: %w", err)
	default:
		return errors.New("namespaces: not listed yet")
	}
}

// State returns how current the cache is.
func (i *Informer) State() follow.State { return i.cache.State() }

// Get returns a namespace. It reads the namespace live if the cache does not have it, if it has only a stub, or if
// agrees returns false for it. The result of a live read is returned even if agrees returns false: the read began
// after the call.
//
// The error is NotFound if the namespace does not exist, and TooManyRequests if too many namespaces are being
// read. With any error but NotFound, Get also returns the cached namespace, unless it is a stub.
func (i *Informer) Get(ctx context.Context, name string, agrees func(templates.Namespace) bool) (templates.Namespace, error) {
	cached, ok := i.get(name)
	if ok && !cached.stub && agrees(cached.Namespace()) {
		return cached.Namespace(), nil
	}
	ns, err := i.live.get(ctx, name, ok && cached.stub, func(ns *metav1.PartialObjectMetadata) bool { return agrees(newFullNamespace(ns).Namespace()) })
	switch {
	case err == nil:
		return newFullNamespace(ns).Namespace(), nil
	case !ok || cached.stub || apierrors.IsNotFound(err):
		return templates.Namespace{}, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return cached.Namespace(), fmt.Errorf("reading namespace %q: %w", name, err)
}

// GetWithOwners returns a namespace with the owners of its labels. It reads the namespace live if the cache has only
// a stub. The error is NotFound if the namespace is not in the cache, or is being deleted.
func (i *Informer) GetWithOwners(ctx context.Context, name string) (labels.Namespace, error) {
	cached, ok := i.get(name)
	switch {
	case !ok || cached.DeletionTimestamp != nil:
		return labels.Namespace{}, apierrors.NewNotFound(resource.GroupResource(), name)
	case !cached.stub:
		return cached.withOwners(), nil
	}
	ns, err := i.live.get(ctx, name, true, func(*metav1.PartialObjectMetadata) bool { return true })
	switch {
	case err != nil:
		return labels.Namespace{}, fmt.Errorf("reading namespace %q: %w", name, err)
	case ns.DeletionTimestamp != nil:
		return labels.Namespace{}, apierrors.NewNotFound(resource.GroupResource(), name)
	}
	return newFullNamespace(ns).withOwners(), nil
}

// UID returns the UID of a namespace in the cache.
func (i *Informer) UID(name string) (types.UID, bool) {
	ns, ok := i.get(name)
	if !ok {
		return "", false
	}
	return ns.UID, true
}

// get returns a namespace of the cache.
func (i *Informer) get(name string) (*namespace, bool) {
	item, _ := i.cache.Get(name)
	ns, ok := item.(*namespace)
	return ns, ok
}

// OnChange calls f with the name of each namespace that is new, different or gone, after the
// cache has been updated. f must return soon. Call OnChange before Run.
func (i *Informer) OnChange(f func(name string)) { i.listeners = append(i.listeners, f) }

// All iterates over the cached namespaces that are not being deleted, in no particular order. A
// stub has only Pillion's labels and the inject annotation.
func (i *Informer) All() iter.Seq[templates.Namespace] {
	return func(yield func(templates.Namespace) bool) {
		for ns := range i.AllWithOwners() {
			if !yield(ns.Namespace) {
				return
			}
		}
	}
}

// AllWithOwners is [Informer.All] with the owners of labels. Stubs are marked.
func (i *Informer) AllWithOwners() iter.Seq[labels.Namespace] {
	return func(yield func(labels.Namespace) bool) {
		for _, item := range i.cache.List() {
			if ns, ok := item.(*namespace); ok && ns.DeletionTimestamp == nil && !yield(ns.withOwners()) {
				return
			}
		}
	}
}
