package follow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/clientset/waiting"
)

const (
	// checkPause is how long after a check the next one begins, and failedPause after one
	// that failed.
	checkPause  = 750 * time.Millisecond
	failedPause = time.Second
	// An API server sends a bookmark two seconds before a watch ends by itself. So a watch
	// of watchSeconds says within 2.25 s that there is nothing more to say, and one that has
	// not said so after silence says nothing at all.
	watchSeconds = 3
	silence      = 2500 * time.Millisecond
	// grace is how long the cache may lack what the API server has shown. A watch brings it
	// within milliseconds.
	grace = time.Second
	// readTimeout bounds the read of a check.
	readTimeout = 3 * time.Second
	// unreadableAfter is how long reads have to fail before the state says so.
	unreadableAfter = 2 * time.Second
	// mostPending bounds what the cache is waited for at the same time.
	mostPending = 1024
	pageSize    = 500
)

// State is how current a cache is.
type State struct {
	// Age is the time since the cache was last known to be current.
	Age time.Duration
	// Wrong says what the API server has and the cache lacks. It is nil if nothing is known
	// to be missing. Proofs counts how often the cache was shown to be wrong.
	Wrong  error
	Proofs int
	// Unreadable says why the API server cannot be asked, nil if it can.
	Unreadable error
}

// need is a version of an object that the API server has, and the cache must get.
type need struct {
	version string
	deleted bool
	since   time.Time
}

// judgement is what is known of a cache. The cache's lock guards it.
type judgement struct {
	// current is a time at which the cache was known to be current.
	current time.Time
	// pending are the needs, by key.
	pending map[string]need
	judging bool
	// wrong says what the cache lacks since wrongSince.
	wrong      error
	wrongSince time.Time
	proofs     int
	// unreadable is the error of reads that have failed since unreadableSince. said reports
	// whether the state and the log say so.
	unreadable      error
	unreadableSince time.Time
	said            bool
	// silent reports whether watches bring nothing, as the log says.
	silent bool
}

// State returns how current the cache is.
func (c *Cache) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Age: time.Since(c.current), Wrong: c.wrong, Proofs: c.proofs}
	if c.said {
		s.Unreadable = c.unreadable
	}
	return s
}

// Wrong returns [State.Wrong].
func (c *Cache) Wrong() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}

// Saw says that a consistent read has shown a version of an object. A cache that still lacks
// it after a second is wrong.
func (c *Cache) Saw(key, version string) { c.mustGet(key, need{version: version}) }

func (c *Cache) mustGet(key string, n need) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.HasSynced() || c.has(key, n) {
		return
	}
	if _, ok := c.pending[key]; ok || len(c.pending) >= mostPending {
		return // the first need of an object is the one that is met first
	}
	n.since = time.Now()
	c.pending[key] = n
	c.judgeAfter(grace)
}

// has reports whether the cache has what is needed, or something newer. Versions that cannot
// be compared prove nothing.
func (c *Cache) has(key string, n need) bool {
	if atLeast(c.at, n.version) {
		return true
	}
	object, ok := c.Get(key)
	if !ok {
		return n.deleted
	}
	return atLeast(versionOf(object), n.version)
}

// atLeast reports whether a version is as new as another one, or cannot be compared with it.
func atLeast(version, other string) bool {
	compared, err := resourceversion.CompareResourceVersion(version, other)
	return err != nil || compared >= 0
}

// judgeAfter has the needs looked at, unless that is to be done anyhow.
func (c *Cache) judgeAfter(d time.Duration) {
	if c.judging {
		return
	}
	c.judging = true
	time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.judging = false
		c.judgeLocked()
	})
}

// judgeLocked drops the needs that are met. One that is not met in time proves the cache
// wrong: the cache is read anew. It is right again when no need is left that is late.
func (c *Cache) judgeLocked() {
	var late string
	next := time.Duration(-1)
	for key, n := range c.pending {
		left := grace - time.Since(n.since)
		switch {
		case c.has(key, n):
			delete(c.pending, key)
		case left <= 0:
			late = key
		case next < 0 || left < next:
			next = left
		}
	}
	switch {
	case late != "" && c.wrong == nil:
		n := c.pending[late]
		c.proofs++
		c.wrongSince = n.since
		c.wrong = fmt.Errorf("the cache of %s is wrong: the API server has had version %s of %q for more than %s, and no watch has brought it; the cache is being read anew", c.o.Name, n.version, late, grace)
		c.o.Logger.Warn("a cache is wrong, and is read anew; until it is current, this replica leaves the endpoints and closes its connections", "cache", c.o.Name, "object", late, "version", n.version)
		c.restart()
	case late == "" && c.wrong != nil:
		c.o.Logger.Info("a cache that was wrong is current again", "cache", c.o.Name, "after", time.Since(c.wrongSince).Round(time.Millisecond))
		c.wrong = nil
	}
	if next >= 0 {
		c.judgeAfter(next)
	}
}

// checkUntil compares the cache with the API server again and again.
func (c *Cache) checkUntil(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.synced:
	}
	for pause := checkPause; waiting.For(ctx, pause); {
		pause = checkPause
		if err := c.check(ctx); err != nil {
			pause = failedPause
		}
	}
}

// check compares the cache with the API server once. The error says why the API server
// cannot be asked.
//
// A consistent read of a single object gives the newest version of all. A watch from the
// cache's own version then brings what the cache may lack, and at last the word that this
// was all. So a check costs two requests, however many objects there are.
func (c *Cache) check(ctx context.Context) error {
	began, from := time.Now(), c.version()
	newest, err := c.newest(ctx)
	if err != nil {
		return c.cannotRead(ctx, began, err)
	}
	c.canRead()
	if !atLeast(from, newest) {
		complete, err := c.compareByWatch(ctx, from, newest)
		switch {
		case ctx.Err() != nil:
			return nil
		case expired(err):
			c.mu.Lock()
			c.restart() // it may have missed something, and cannot be told any more
			c.mu.Unlock()
			return nil
		case err != nil:
			return c.cannotRead(ctx, began, err)
		case !complete:
			if err := c.compareByList(ctx); err != nil {
				return c.cannotRead(ctx, began, err)
			}
		}
		c.noteSilence(!complete)
	}
	if c.settled(ctx) {
		c.mu.Lock()
		if c.current.Before(began) {
			c.current = began
		}
		c.mu.Unlock()
	}
	return nil
}

func (c *Cache) version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// newest returns the newest version that there is of any object.
func (c *Cache) newest(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := c.o.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return "", fmt.Errorf("reading the version of a list of %s: %w", c.o.Name, err)
	}
	return m.GetResourceVersion(), nil
}

// compareByWatch takes note of everything newer than a version. complete reports whether the
// API server has said that this was all up to the newest version.
func (c *Cache) compareByWatch(ctx context.Context, from, newest string) (complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	seconds := int64(watchSeconds)
	w, err := c.o.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for {
		var event watch.Event
		var ok bool
		select {
		case <-ctx.Done():
			return false, nil
		case event, ok = <-w.ResultChan():
		}
		if !ok {
			return false, nil
		}
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		version := versionOf(event.Object)
		if event.Type != watch.Bookmark {
			c.note(event.Object, need{version: version, deleted: event.Type == watch.Deleted})
		}
		if atLeast(version, newest) {
			return true, nil
		}
	}
}

// note notes that the cache must get an object.
func (c *Cache) note(object runtime.Object, n need) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		c.mustGet(key, n)
	}
}

// compareByList compares all objects. It is for an API server whose watches bring nothing.
func (c *Cache) compareByList(ctx context.Context) error {
	there := map[string]bool{}
	var newest string
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := c.page(ctx, options)
		if err != nil {
			return err
		}
		m, err := meta.ListAccessor(page)
		if err != nil {
			return fmt.Errorf("reading the version of a list of %s: %w", c.o.Name, err)
		}
		err = meta.EachListItem(page, func(object runtime.Object) error {
			if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
				there[key] = true
			}
			c.note(object, need{version: versionOf(object)})
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading a list of %s: %w", c.o.Name, err)
		}
		newest = m.GetResourceVersion()
		if options.Continue = m.GetContinue(); options.Continue == "" {
			break
		}
	}
	for key, version := range c.versions() {
		if !there[key] && atLeast(newest, version) {
			c.mustGet(key, need{version: newest, deleted: true})
		}
	}
	return nil
}

func (c *Cache) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.o.List(ctx, options)
}

// settled waits until the cache has what it must get, or is wrong. It reports whether the
// cache has it.
func (c *Cache) settled(ctx context.Context) bool {
	for deadline := time.Now().Add(grace + checkPause); ; {
		c.mu.Lock()
		c.judgeLocked()
		pending, wrong := len(c.pending), c.wrong
		c.mu.Unlock()
		switch {
		case wrong != nil:
			return false
		case pending == 0:
			return true
		case time.Now().After(deadline) || !waiting.For(ctx, 20*time.Millisecond):
			return false
		}
	}
}

// cannotRead takes note of a read that failed, and when it began. It returns the error.
func (c *Cache) cannotRead(ctx context.Context, began time.Time, err error) error {
	if ctx.Err() != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadable == nil {
		c.unreadableSince = began
	}
	c.unreadable = err
	if !c.said && time.Since(c.unreadableSince) >= unreadableAfter {
		c.said = true
		c.o.Logger.Warn("the API server cannot be read: nobody knows how current the cache is. This replica stays ready and works with what it has", "cache", c.o.Name, "age", time.Since(c.current).Round(time.Millisecond), "error", err)
	}
	return err
}

func (c *Cache) canRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said {
		c.o.Logger.Info("the API server can be read again", "cache", c.o.Name, "after", time.Since(c.unreadableSince).Round(time.Millisecond))
	}
	c.unreadable, c.said = nil, false
}

func (c *Cache) noteSilence(silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case silent && !c.silent:
		c.o.Logger.Warn("watches bring nothing, not even the word that there is nothing; the cache is compared by lists, which cost more", "cache", c.o.Name)
	case !silent && c.silent:
		c.o.Logger.Info("watches work again", "cache", c.o.Name)
	}
	c.silent = silent
}
