package namespaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/clientset/follow"
	"github.com/pillion-dev/pillion/templates"
)

var resource = corev1.SchemeGroupVersion.WithResource("namespaces")

// Informer holds the metadata of all namespaces in a cache.
type Informer struct {
	cache *follow.Cache
	live  *liveReader

	mu sync.Mutex
	// changed are the listeners of [Informer.OnChange].
	changed []func(name string)
}

// New returns an informer. Its cache is empty until [Informer.Run] fills it. Owned are the
// labels of which [Labelled] says whether somebody set them by hand.
func New(client metadata.Interface, log *slog.Logger, owned ...string) *Informer {
	i := &Informer{}
	all := client.Resource(resource)
	i.cache = follow.New(follow.Options{
		Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Client: client,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, options)
		},
		Watch: all.Watch, Transform: onlyNeeded(owned), Changed: i.tell, Checked: true, Logger: log,
	})
	i.live = newLiveReader(client, i.cache.Saw)
	return i
}

// Run keeps the cache up to date until ctx ends.
func (i *Informer) Run(ctx context.Context) { i.cache.Run(ctx) }

// Loaded returns nil once the cache has been filled. Before that, the error says why the
// cache is still empty.
func (i *Informer) Loaded() error {
	if i.cache.HasSynced() {
		return nil
	}
	switch err := cmp.Or(i.cache.Failed("list"), i.cache.Failed("watch")); {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("namespaces: list and watch of namespaces are not permitted; the chart's ClusterRole grants them: %w", err)
	case err != nil:
		return fmt.Errorf("namespaces: listing namespaces failed: %w", err)
	default:
		return errors.New("namespaces: not listed yet")
	}
}

// Ready returns nil if the cache has been filled, and nothing proves it wrong.
func (i *Informer) Ready() error { return cmp.Or(i.Loaded(), i.cache.Wrong()) }

// State returns how current the cache is.
func (i *Informer) State() follow.State { return i.cache.State() }

// Get returns the metadata of a namespace. It reads the namespace live if the cache does
// not hold it, if what the cache holds does not agree with what the caller knows of the
// namespace, and if something proves the whole cache wrong. agrees reports whether metadata
// agree. What a live read brings counts in any case: it began after the caller asked.
//
// The error is NotFound if the namespace does not exist, and TooManyRequests if too many
// namespaces are being read.
func (i *Informer) Get(ctx context.Context, name string, agrees func(templates.Namespace) bool) (templates.Namespace, error) {
	if known, ok := i.cached(name); ok && i.cache.Wrong() == nil {
		if ns := known.namespace(); agrees(ns) {
			return ns, nil
		}
	}
	ns, err := i.live.get(ctx, name, agrees)
	if err != nil {
		return templates.Namespace{}, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return ns, nil
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
	item, _ := i.cache.Get(name)
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
func (i *Informer) OnChange(f func(name string)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changed = append(i.changed, f)
}

func (i *Informer) tell(name string) {
	i.mu.Lock()
	listeners := i.changed
	i.mu.Unlock()
	for _, f := range listeners {
		f(name)
	}
}

// All goes over the namespaces in the cache, in no particular order. Namespaces that are
// being deleted are left out. The maps of a namespace hold until the next one: ten thousand
// of them would be garbage each time.
func (i *Informer) All() iter.Seq[templates.Namespace] {
	return func(yield func(templates.Namespace) bool) {
		for ns := range (Labelled{i}).All() {
			if !yield(ns.Namespace) {
				return
			}
		}
	}
}
