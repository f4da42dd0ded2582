package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// retryPause is the pause after a failed list or watch. Jitter at most doubles it, so that replicas that lost
	// the same API server do not return at the same moment.
	retryPause = 400 * time.Millisecond
	// callTimeout bounds a page of a list, and beginTimeout the time until a watch begins.
	callTimeout  = 10 * time.Second
	beginTimeout = 5 * time.Second
)

// Options configure a [Cache]. The fields above Stream are required.
type Options struct {
	// Name names the cache in errors, the log and metrics, such as "namespaces".
	Name string
	// Example is an object of the type that List and Watch return.
	Example runtime.Object
	List    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)

	// Stream is the client behind List and Watch. If it is set, the API server streams lists, object by object;
	// otherwise lists are read page by page. A streamed list of a CRD that is deleted and created again may never end.
	Stream any
	// Transform converts an object into its form in the cache. It is idempotent.
	Transform cache.TransformFunc
	// Changed is called with the key of each object that is new, different or gone, after
	// the cache has been updated. It must return soon.
	Changed func(key string)
	// Filled is called once, when the cache has been filled and Changed has been called for
	// each object. It must return soon.
	Filled func()
	// Answered is called after each list and watch, with the verb and the error. It must return soon.
	Answered func(verb string, err error)
	// Logger logs when the API server cannot be read, and when it can be read again. Default: none.
	Logger *slog.Logger
}

// Cache has the objects of one resource. [New] returns one.
type Cache struct {
	options Options
	store   cache.Store
	synced  chan struct{}

	mu sync.Mutex
	// errors has the last error of each verb that fails at present.
	errors map[string]error
	// listed is the beginning of the last complete list. current is the last time at which the cache was complete.
	listed, current time.Time
	// unreadable reports whether the last line in the log is that the API server cannot be read.
	unreadable bool
}

// New returns a cache that is empty until [Cache.Run] fills it.
func New(o Options) *Cache {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	c := &Cache{options: o, synced: make(chan struct{}), errors: map[string]error{}, current: time.Now()}
	var options []cache.StoreOption
	if o.Transform != nil {
		options = append(options, cache.WithTransformer(o.Transform))
	}
	c.store = cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, options...)
	return c
}

// Run keeps the cache up to date until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	reflector := cache.NewReflectorWithOptions(&listWatch{&cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}, c.options.Stream},
		c.options.Example, &observedStore{c.store, c}, cache.ReflectorOptions{
			Name: c.options.Name, TypeDescription: c.options.Name, Backoff: &wait.Backoff{Duration: retryPause, Jitter: 1},
		})
	for ctx.Err() == nil {
		_ = reflector.ListAndWatchWithContext(ctx) // c.observe has the error
		waiting.For(ctx, wait.Jitter(retryPause, 1))
	}
}

// listWatch is the client of the reflector.
type listWatch struct {
	*cache.ListWatch
	client any
}

// IsWatchListSemanticsUnSupported reports whether the reflector lists page by page.
func (l *listWatch) IsWatchListSemanticsUnSupported() bool {
	return l.client == nil || watchlist.DoesClientNotSupportWatchListSemantics(l.client)
}

// list lists for the reflector. It drops version 0, for which an API server may answer from an old cache. Without a
// version, the answer is consistent.
func (c *Cache) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	if options.Continue == "" {
		c.beginList()
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.options.List(limited, options)
	c.observe(ctx, "list", err)
	return list, err
}

func (c *Cache) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		c.beginList()
	}
	w, err := c.beginWatch(ctx, options)
	c.observe(ctx, "watch", err)
	return w, err
}

// beginWatch begins a watch. It fails after beginTimeout.
func (c *Cache) beginWatch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(beginTimeout, cancel)
	w, err := c.options.Watch(ctx, options)
	switch {
	case late.Stop() && err == nil:
		return cancelingWatch{w, cancel}, nil
	case err == nil:
		w.Stop()
	}
	cancel()
	return nil, cmp.Or(err, fmt.Errorf("the API server did not begin the watch within %s", beginTimeout))
}

// cancelingWatch is a watch that cancels its context when it stops.
type cancelingWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements [watch.Interface].
func (w cancelingWatch) Stop() {
	w.cancel()
	w.Interface.Stop()
}

func (c *Cache) beginList() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = time.Now()
}

// observe records the result of a call.
func (c *Cache) observe(ctx context.Context, verb string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if isExpired(err) {
		return // the reflector lists again
	}
	c.mu.Lock()
	if err == nil {
		delete(c.errors, verb)
	} else {
		c.errors[verb] = err
	}
	if apierrors.IsNotFound(err) {
		c.current = time.Now() // there is no such resource
	}
	c.logState()
	c.mu.Unlock()
	if c.options.Answered != nil {
		c.options.Answered(verb, err)
	}
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// logState logs when the API server cannot be read any more, and when it can be read again.
func (c *Cache) logState() {
	err := c.err()
	switch unreadable := err != nil && !apierrors.IsNotFound(err); {
	case unreadable == c.unreadable || !c.HasSynced():
	case unreadable:
		c.unreadable = true
		c.options.Logger.Warn("the API server cannot be read, so the cache may be old; this replica stays ready and works with it", "cache", c.options.Name, "age", time.Since(c.current).Round(time.Millisecond), "error", err)
	default:
		c.unreadable = false
		c.options.Logger.Info("the API server can be read again", "cache", c.options.Name)
	}
}

// Failed returns the last error of a verb, list or watch, and nil if the verb works. One verb may
// work without the other.
func (c *Cache) Failed(verb string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errors[verb]
}

// Err returns the reason why the API server cannot be read at present, or nil.
func (c *Cache) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err()
}

func (c *Cache) err() error { return cmp.Or(c.errors["list"], c.errors["watch"]) }

// State is how current a cache is.
type State struct {
	// Age is the time since the cache was last known to have everything: since the last event or bookmark.
	Age time.Duration
	// Err is the reason why the API server cannot be read. It is nil if the API does not serve the resource.
	Err error
}

// State returns how current the cache is.
func (c *Cache) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Age: time.Since(c.current)}
	if err := c.err(); !apierrors.IsNotFound(err) {
		s.Err = err
	}
	return s
}

// HasSynced reports whether the cache has been filled and Changed has been called for each object.
func (c *Cache) HasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// Get returns the cached form of an object. The caller must not change it.
func (c *Cache) Get(key string) (object any, ok bool) {
	object, ok, _ = c.store.GetByKey(key) // a store in memory returns no error
	return object, ok
}

// List returns the cached forms of all objects, in no particular order.
func (c *Cache) List() []any { return c.store.List() }

// observedStore is the store that the reflector fills. It calls Changed and Filled.
type observedStore struct {
	cache.Store
	cache *Cache
}

// Transformer implements [cache.TransformingStore]: the reflector transforms objects as they arrive.
func (s *observedStore) Transformer() cache.TransformFunc { return s.cache.options.Transform }

// Add implements [cache.ReflectorStore].
func (s *observedStore) Add(object any) error { return s.write(object, s.Store.Add) }

// Update implements [cache.ReflectorStore].
func (s *observedStore) Update(object any) error { return s.write(object, s.Store.Update) }

// Delete implements [cache.ReflectorStore].
func (s *observedStore) Delete(object any) error { return s.write(object, s.Store.Delete) }

func (s *observedStore) write(object any, write func(any) error) error {
	if err := write(object); err != nil {
		return err
	}
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return fmt.Errorf("finding the key of an object of %s: %w", s.cache.options.Name, err)
	}
	s.cache.options.Changed(key)
	return nil
}

// UpdateResourceVersion implements [cache.ResourceVersionUpdater]. The reflector calls it after each event and
// each bookmark of a watch.
func (s *observedStore) UpdateResourceVersion(string) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.current = time.Now()
}

// Replace implements [cache.ReflectorStore].
func (s *observedStore) Replace(objects []any, version string) error {
	before := s.versions()
	if err := s.Store.Replace(objects, version); err != nil {
		return err
	}
	for key, now := range s.versions() {
		if was, ok := before[key]; !ok || was != now || now == "" {
			s.cache.options.Changed(key)
		}
		delete(before, key)
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		s.cache.options.Changed(key)
	}
	s.cache.endList()
	return nil
}

// endList records the end of a complete list.
func (c *Cache) endList() {
	c.mu.Lock()
	c.current = c.listed
	first := !c.HasSynced()
	if first {
		close(c.synced)
	}
	c.mu.Unlock()
	if first && c.options.Filled != nil {
		c.options.Filled()
	}
}

// versions returns the resource version of each object, by its key.
func (s *observedStore) versions() map[string]string {
	all := map[string]string{}
	for _, key := range s.ListKeys() {
		object, ok := s.cache.Get(key)
		if !ok {
			continue
		}
		all[key] = ""
		if m, err := meta.Accessor(object); err == nil {
			all[key] = m.GetResourceVersion()
		}
	}
	return all
}
