package namespaces

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/templates"
)

var resource = corev1.SchemeGroupVersion.WithResource("namespaces")

// Informer holds the metadata of all namespaces in a cache.
type Informer struct {
	informer cache.SharedIndexInformer
	live     *liveReader

	mu sync.Mutex
	// lastError is the last error of the list or watch request.
	lastError error
}

// New returns an informer. Its cache is empty until [Informer.Run] fills it. Owned are the
// labels of which [Labelled] says whether somebody set them by hand.
func New(client metadata.Interface, owned ...string) (*Informer, error) {
	i := &Informer{live: newLiveReader(client)}
	all := client.Resource(resource)
	i.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, options)
		},
		WatchFuncWithContext: all.Watch,
	}, client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	err := errors.Join(i.informer.SetTransform(onlyNeeded(owned)), i.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.lastError = err
	}))
	if err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return i, nil
}

// Run keeps the cache up to date until ctx ends.
func (i *Informer) Run(ctx context.Context) { i.informer.RunWithContext(ctx) }

// Ready returns nil once the cache has been filled. Before that, the error says why the
// cache is still empty.
func (i *Informer) Ready() error {
	if i.informer.HasSynced() {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case apierrors.IsForbidden(i.lastError):
		return fmt.Errorf("namespaces: list and watch of namespaces are not permitted; the chart's ClusterRole grants them: %w", i.lastError)
	case i.lastError != nil:
		return fmt.Errorf("namespaces: listing namespaces failed: %w", i.lastError)
	default:
		return errors.New("namespaces: not listed yet")
	}
}

// Get returns the metadata of a namespace. It reads the namespace live if the cache does
// not hold it. The error is NotFound if the namespace does not exist, and TooManyRequests
// if too many namespaces are being read.
func (i *Informer) Get(ctx context.Context, name string) (templates.Namespace, error) {
	if ns, ok := i.cached(name); ok {
		return ns.namespace(), nil
	}
	object, err := i.live.get(ctx, name)
	if err != nil {
		return templates.Namespace{}, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return templates.Namespace{Name: object.Name, Labels: object.Labels, Annotations: annotationsOf(object)}, nil
}

// UID returns the UID of a namespace in the cache. It reads nothing live.
func (i *Informer) UID(name string) (types.UID, bool) {
	ns, ok := i.cached(name)
	if !ok {
		return "", false
	}
	return ns.uid, true
}

// cached returns a namespace of the cache.
func (i *Informer) cached(name string) (*cached, bool) {
	item, _, _ := i.informer.GetStore().GetByKey(name) // the store is in memory: no key fails
	ns, ok := item.(*cached)
	return ns, ok
}

// Cached returns the metadata of a namespace in the cache that is not being deleted. It reads
// nothing live.
func (i *Informer) Cached(name string) (templates.Namespace, bool) {
	ns, ok := i.cached(name)
	if !ok || ns.deleting {
		return templates.Namespace{}, false
	}
	return ns.namespace(), true
}

// OnChange calls f with the name of each namespace that is new, different or gone, once the
// cache has it. f must return soon. Call OnChange before Run.
func (i *Informer) OnChange(f func(name string)) error {
	changed := func(object any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			f(name)
		}
	}
	_, err := i.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	return nil
}

// List returns the namespaces in the cache, in no particular order. Namespaces that are
// being deleted are left out.
func (i *Informer) List() []templates.Namespace { return slices.Collect(i.All()) }

// All goes over the namespaces of [Informer.List] one by one, so that they are not all in
// memory at the same time.
func (i *Informer) All() iter.Seq[templates.Namespace] {
	return func(yield func(templates.Namespace) bool) {
		for _, item := range i.informer.GetStore().List() {
			if ns, ok := item.(*cached); ok && !ns.deleting && !yield(ns.namespace()) {
				return
			}
		}
	}
}
