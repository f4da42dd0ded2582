package namespaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
)

var resource = corev1.SchemeGroupVersion.WithResource("namespaces")

// Options are what [New] needs. All fields are required but Prefix.
type Options struct {
	Client metadata.Interface
	// List answers one list request for the metadata of namespaces as JSON.
	List func(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error)
	// Prefix is that of labels and annotations. Default: [templates.DefaultPrefix].
	Prefix string
	// Reads returns what the templates in force read of namespaces.
	Reads func() *templates.NamespaceReads
	// Bytes is how much may be kept of the metadata of all namespaces together. Of those that
	// find no room, only what [Informer.Labelled] needs is kept.
	Bytes  int64
	Logger *slog.Logger
}

// Informer holds the metadata of all namespaces in a cache: all of a small namespace, and of a
// large one what templates and Pillion itself need.
type Informer struct {
	o       Options
	cache   *follow.Cache
	keeping *keeping
	live    *liveReader
	wake    waiting.Wake
	// changed are the listeners of [Informer.OnChange].
	changed []func(name string)
}

// New returns an informer. Its cache is empty until [Informer.Run] fills it.
func New(o Options) *Informer {
	o.Prefix = cmp.Or(o.Prefix, templates.DefaultPrefix)
	i := &Informer{o: o, keeping: &keeping{prefix: o.Prefix, reads: o.Reads, left: o.Bytes, sizes: map[string]int64{}}, wake: waiting.NewWake()}
	i.cache = follow.New(follow.Options{
		Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Client: o.Client,
		List: i.list, Watch: o.Client.Resource(resource).Watch, Transform: i.keeping.transform, Changed: i.tell, Checked: true, Logger: o.Logger,
	})
	i.live = newLiveReader(o.Client, i.cache.Saw)
	return i
}

// Run keeps the cache up to date until ctx ends.
func (i *Informer) Run(ctx context.Context) {
	var remaking sync.WaitGroup
	defer remaking.Wait()
	remaking.Go(func() { i.remakeUntil(ctx) })
	i.cache.Run(ctx)
}

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

// Get returns what templates that read these keys need of a namespace, or all of it for nil. It
// reads the namespace live if the cache does not hold that, or does not agree with what the caller
// knows of the namespace. So it does if something proves the whole cache wrong. agrees reports whether metadata agree; it may look at Pillion's own labels. What a live
// read brings counts in any case: it began after the caller asked.
//
// The error is NotFound if the namespace does not exist, and TooManyRequests if too many
// namespaces are being read. Beside any other error than NotFound is what the cache holds, if
// that is what these templates need and nothing proves the cache wrong.
func (i *Informer) Get(ctx context.Context, name string, reads *templates.NamespaceReads, agrees func(templates.Namespace) bool) (templates.Namespace, error) {
	var held templates.Namespace
	known, ok := i.cached(name)
	if ok && known.part.serves(reads) && i.cache.Wrong() == nil {
		if held = known.namespace(); agrees(held) {
			return held, nil
		}
	}
	ns, err := i.live.get(ctx, name, ok && known.part != nil, agrees)
	if err != nil {
		if apierrors.IsNotFound(err) {
			held = templates.Namespace{}
		}
		return held, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	if reads != nil && !reads.Whole() && sizeOf(ns.Labels)+sizeOf(ns.Annotations) > mostKept {
		// A review keeps the namespace until it is answered.
		ns.Labels, ns.Annotations = needed(i.o.Prefix, reads, ns.Labels, ns.Annotations)
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

// Cached returns a namespace in the cache that is not being deleted. Of a large one it has, for
// sure, Pillion's own labels, those that selectors name, and what the namespace asks for. It
// reads nothing live.
func (i *Informer) Cached(name string) (templates.Namespace, bool) {
	ns, ok := i.cached(name)
	if !ok || ns.deleting {
		return templates.Namespace{}, false
	}
	return ns.namespace(), true
}

// OnChange calls f with the name of each namespace that is new, different or gone, once the
// cache has it. f must return soon. Call OnChange before Run.
func (i *Informer) OnChange(f func(name string)) { i.changed = append(i.changed, f) }

func (i *Informer) tell(name string) {
	if ns, ok := i.cached(name); !ok {
		i.keeping.gone(name)
	} else if i.lacks(ns) {
		i.TemplatesChanged()
	}
	for _, f := range i.changed {
		f(name)
	}
}

// All goes over the namespaces in the cache, in no particular order, with what [Informer.Cached]
// has of them. Namespaces that are being deleted are left out. The maps of a namespace hold until
// the next one: ten thousand of them would be garbage each time.
func (i *Informer) All() iter.Seq[templates.Namespace] {
	return func(yield func(templates.Namespace) bool) {
		for ns := range i.AllLabelled() {
			if !yield(ns.Namespace) {
				return
			}
		}
	}
}
