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
	// A list or watch that failed is tried again after retryPause, and up to as much again:
	// replicas that lost the same API server do not come back in step.
	retryPause = 400 * time.Millisecond
	// firstAnswer is how long a streamed list may take before the objects are listed page
	// by page instead.
	firstAnswer = 10 * time.Second
	// forbiddenPause is the pause while lists are permitted and watches are not: each try
	// lists everything.
	forbiddenPause = 5 * time.Second
	// absentPause is the pause while the API server does not know the resource, such as before its
	// CRD is installed.
	absentPause = 1200 * time.Millisecond
	// callTimeout bounds a page of a list, and beginTimeout the time until a watch begins.
	callTimeout  = 10 * time.Second
	beginTimeout = 5 * time.Second
)

// Options are what a [Cache] works with. The fields above Transform are required.
type Options struct {
	// Name names the cache in errors, the log and metrics, such as "namespaces".
	Name string
	// Example is an object of the type that List and Watch bring.
	Example runtime.Object
	List    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// Client is the client behind List and Watch. A fake one says of itself that it knows
	// no streamed lists.
	Client any

	// Transform turns an object into what the cache keeps. Given its own result, it changes nothing.
	Transform cache.TransformFunc
	// Changed is called with the key of each object that is new, different or gone, once
	// the cache has it. It must return soon.
	Changed func(key string)
	// Filled is called once, when the cache has been filled and Changed has been called for
	// each object. It must return soon.
	Filled func()
	// Answered is called after each list and watch that fills the cache, with the verb
	// and the error. It must return soon.
	Answered func(verb string, err error)
	// Checked has the cache compared with the API server every ten seconds, for
	// [Cache.State].
	Checked bool
	// Logger hears when the state changes.
	Logger *slog.Logger
}

// Cache holds the objects of one resource. Make one with [New].
type Cache struct {
	o      Options
	store  cache.Store
	synced chan struct{}
	// soon has the next check begin at once.
	soon waiting.Wake
	// writing lets one change of the store happen at a time.
	writing sync.Mutex

	mu sync.Mutex
	// at is a resource version. The cache has every change up to it.
	at string
	// failed has the last error of each verb that does not work.
	failed map[string]error
	// restart ends the present watch, and the cache is read anew.
	restart context.CancelFunc
	// asked is when the read began that fills the cache next.
	asked time.Time
	judgement
}

// New returns a cache that is empty until [Cache.Run] fills it.
func New(o Options) *Cache {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cache{o: o, synced: make(chan struct{}), soon: waiting.NewWake(), failed: map[string]error{}, restart: func() {}}
	c.current = time.Now()
	var options []cache.StoreOption
	if o.Transform != nil {
		options = append(options, cache.WithTransformer(o.Transform))
	}
	c.store = cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, options...)
	return c
}

// Run keeps the cache up to date until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	var checking sync.WaitGroup
	defer checking.Wait()
	if c.o.Checked {
		checking.Go(func() { c.checkUntil(ctx) })
	}
	// A streamed list costs an API server and this process less. The later runs list page by
	// page, which needs no watch that works.
	for n := 0; ctx.Err() == nil; n++ {
		c.run(ctx, n > 0)
	}
}

// run reads all objects and follows them, until ctx ends or the cache is to be read anew.
func (c *Cache) run(ctx context.Context, pages bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.mu.Lock()
	c.restart = stop
	c.mu.Unlock()
	if !pages {
		late := time.AfterFunc(firstAnswer, func() {
			if !c.HasSynced() {
				stop()
			}
		})
		defer late.Stop()
	}
	reflector := cache.NewReflectorWithOptions(&asked{ListWatch: &cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}, pages: pages, client: c.o.Client},
		c.o.Example, &filled{Store: c.store, c: c, run: ctx}, cache.ReflectorOptions{
			Name: c.o.Name, TypeDescription: c.o.Name,
			Backoff: &wait.Backoff{Duration: retryPause, Jitter: 1},
		})
	for ctx.Err() == nil {
		// Its error has been taken note of where the call was made.
		_ = reflector.ListAndWatchWithContext(ctx)
		pause := retryPause
		switch list := c.Failed("list"); {
		case apierrors.IsNotFound(list):
			pause = absentPause
		case list == nil && apierrors.IsForbidden(c.Failed("watch")):
			pause = forbiddenPause
		}
		if !waiting.For(ctx, wait.Jitter(pause, 1)) {
			return
		}
	}
}

// asked is what the reflector asks.
type asked struct {
	*cache.ListWatch
	pages  bool
	client any
}

// IsWatchListSemanticsUnSupported has the reflector list page by page.
func (a *asked) IsWatchListSemanticsUnSupported() bool {
	return a.pages || watchlist.DoesClientNotSupportWatchListSemantics(a.client)
}

// list lists for the reflector. Version 0 would be answered from whatever an API server has
// in its own cache, however old. Without a version the answer is as new as the request.
func (c *Cache) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	if options.Continue == "" {
		c.ask()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.o.List(ctx, options)
	c.answered(ctx, "list", err)
	return list, err
}

func (c *Cache) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	streamed := options.SendInitialEvents != nil && *options.SendInitialEvents
	if streamed {
		c.ask()
	}
	c.soon.Wake() // the last watch has ended, and that may be for a reason
	w, err := c.begin(ctx, options)
	if !streamed || !apierrors.IsInvalid(err) { // an API server without streamed lists is asked for pages next
		c.answered(ctx, "watch", err)
	}
	return w, err
}

// begin begins a watch, or gives up.
func (c *Cache) begin(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(beginTimeout, cancel)
	w, err := c.o.Watch(ctx, options)
	switch {
	case late.Stop() && err == nil:
		return begun{w, cancel}, nil
	case err == nil:
		w.Stop()
	}
	cancel()
	return nil, cmp.Or(err, fmt.Errorf("the API server did not begin the watch within %s", beginTimeout))
}

// begun is a watch with what has to be given back when it ends.
type begun struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements [watch.Interface].
func (b begun) Stop() {
	b.cancel()
	b.Interface.Stop()
}

// ask notes that a read of everything begins.
func (c *Cache) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Now()
}

// answered takes note of how a call went. A version that the API server has dropped is no
// failure, but the usual end of an old watch.
func (c *Cache) answered(ctx context.Context, verb string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	c.mu.Lock()
	switch {
	case err == nil:
		delete(c.failed, verb)
	case !expired(err):
		c.failed[verb] = err
		if apierrors.IsNotFound(err) && c.asked.After(c.current) {
			c.current = c.asked // there is nothing to know
		}
	}
	c.mu.Unlock()
	if c.o.Answered != nil && !expired(err) {
		c.o.Answered(verb, err)
	}
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// Failed returns the last error of a verb, list or watch, that does not work at present, and
// nil if it does: that the one works says nothing of the other.
func (c *Cache) Failed(verb string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed[verb]
}

// HasSynced reports whether the cache has been filled, and has told of all that is in it.
func (c *Cache) HasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// Get returns what the cache has of an object. The caller must not change it.
func (c *Cache) Get(key string) (object any, ok bool) {
	object, ok, _ = c.store.GetByKey(key) // the store is in memory: no key fails
	return object, ok
}

// List returns what the cache has of all objects, in no particular order.
func (c *Cache) List() []any { return c.store.List() }

// filled is the cache's store, as the reflector of one run fills it.
type filled struct {
	cache.Store
	c *Cache
	// run ends when the cache is to be read anew.
	run context.Context
}

// Transformer has the reflector keep what the cache keeps, from the start.
func (f *filled) Transformer() cache.TransformFunc { return f.c.o.Transform }

// Add implements [cache.ReflectorStore].
func (f *filled) Add(object any) error { return f.c.write(object, f.Store.Add) }

// Update implements [cache.ReflectorStore].
func (f *filled) Update(object any) error { return f.c.write(object, f.Store.Update) }

// Delete implements [cache.ReflectorStore].
func (f *filled) Delete(object any) error { return f.c.write(object, f.Store.Delete) }

// write changes the store by an object, and says so.
func (c *Cache) write(object any, change func(any) error) error {
	c.writing.Lock()
	err := change(object)
	c.writing.Unlock()
	if err != nil || c.o.Changed == nil {
		return err
	}
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return fmt.Errorf("finding the key of an object of %s: %w", c.o.Name, err)
	}
	c.o.Changed(key)
	return nil
}

// Remake has the cache keep an object anew that was read just now, for a Transform that keeps
// something else by now. It does nothing where the cache has another version of the object: that
// one was, or is being, transformed since.
func (c *Cache) Remake(object any) error {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return fmt.Errorf("finding the key of an object of %s: %w", c.o.Name, err)
	}
	version, same := versionOf(object), false
	c.writing.Lock()
	if has, ok := c.Get(key); ok && versionOf(has) == version {
		same, err = true, c.store.Update(object)
	}
	c.writing.Unlock()
	if same && err == nil && c.o.Changed != nil {
		c.o.Changed(key)
	}
	return err
}

// Replace implements [cache.ReflectorStore].
func (f *filled) Replace(objects []any, version string) error {
	c := f.c
	before := c.versions()
	c.writing.Lock()
	err := f.Store.Replace(objects, version)
	c.writing.Unlock()
	if err != nil {
		return err
	}
	var changed []string
	for key, now := range c.versions() {
		if was, ok := before[key]; !ok || was != now || now == "" {
			changed = append(changed, key)
		}
		delete(before, key)
	}
	changed = slices.AppendSeq(changed, maps.Keys(before))
	if c.o.Changed != nil {
		for _, key := range changed {
			c.o.Changed(key)
		}
	}
	first := !c.HasSynced()
	c.readAnew(f.run, version, len(changed) > 0)
	if first && c.o.Filled != nil {
		c.o.Filled()
	}
	return nil
}

// UpdateResourceVersion implements [cache.ResourceVersionUpdater]: the cache has everything
// up to a version.
func (f *filled) UpdateResourceVersion(version string) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.c.at = version
}

// versions returns the resource version of each object, by its key.
func (c *Cache) versions() map[string]string {
	all := map[string]string{}
	for _, key := range c.store.ListKeys() {
		if object, ok := c.Get(key); ok {
			all[key] = versionOf(object)
		}
	}
	return all
}

func versionOf(object any) string {
	m, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}
