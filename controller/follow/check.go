package follow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// checkPause is how long after a check the next one begins, and troublePause after one
	// that did not show the cache to be current.
	checkPause   = 10 * time.Second
	troublePause = 750 * time.Millisecond
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

// judgement is what is known of a cache. The cache's lock guards it.
type judgement struct {
	// current is a time at which the cache was known to be current.
	current time.Time
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

// version is a version of an object that the API server has, or has deleted.
type version struct {
	key, version string
	deleted      bool
}

// State returns how current the cache is.
func (c *Cache) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Age: time.Since(c.current), Wrong: c.wrong, Proofs: c.proofs}
	switch failed := c.failed["list"]; {
	case c.said:
		s.Unreadable = c.unreadable
	case !c.HasSynced() && !apierrors.IsNotFound(failed):
		s.Unreadable = failed
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
func (c *Cache) Saw(key, resourceVersion string) {
	v := version{key: key, version: resourceVersion}
	if !c.HasSynced() || c.has(v) {
		return
	}
	time.AfterFunc(grace, func() {
		if !c.has(v) {
			c.proveWrong(v)
		}
	})
}

// has reports whether the cache has a version, or something newer. Versions that cannot be
// compared prove nothing.
func (c *Cache) has(v version) bool {
	if atLeast(c.version(), v.version) {
		return true
	}
	object, ok := c.Get(v.key)
	if !ok {
		return v.deleted
	}
	return atLeast(versionOf(object), v.version)
}

// atLeast reports whether a version is as new as another one, or cannot be compared with it.
func atLeast(version, other string) bool {
	compared, err := resourceversion.CompareResourceVersion(version, other)
	return err != nil || compared >= 0
}

// version returns a version up to which the cache has every change.
func (c *Cache) version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// proveWrong says that the cache lacks a version, and has the cache read anew.
func (c *Cache) proveWrong(v version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrong != nil {
		return
	}
	c.proofs++
	c.wrongSince = time.Now().Add(-grace)
	c.wrong = fmt.Errorf("the cache of %s is wrong, because no watch delivered version %s of %q, which the API server has had for more than %s; the cache is being read again", c.o.Name, v.version, v.key, grace)
	c.o.Logger.Warn("a cache is wrong, and is read again; until then this replica is not ready and closes its connections", "cache", c.o.Name, "object", v.key, "version", v.version)
	c.restart()
}

// readAnew says that a run of the reflector has read all objects, up to a version. A cache that
// was wrong is right again, unless the run was ended before.
func (c *Cache) readAnew(run context.Context, version string, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = version
	if c.asked.After(c.current) {
		c.current = c.asked
	}
	if !c.HasSynced() {
		c.current = c.asked
		close(c.synced)
	}
	switch {
	case c.wrong != nil && run.Err() == nil:
		c.o.Logger.Info("a cache that was wrong is current again", "cache", c.o.Name, "after", time.Since(c.wrongSince).Round(time.Millisecond))
		c.wrong = nil
	case c.silent && changed:
		c.proofs++
		c.o.Logger.Warn("a cache was wrong, and is read again: watches deliver nothing", "cache", c.o.Name)
	}
}

// checkUntil compares the cache with the API server again and again.
func (c *Cache) checkUntil(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.synced:
	}
	for ctx.Err() == nil {
		if c.check(ctx) {
			waiting.Until(ctx, checkPause, c.soon)
		} else {
			waiting.For(ctx, troublePause)
		}
	}
}

// check compares the cache with the API server once. It reports whether the cache is current,
// and watches keep it so.
//
// A consistent read of a single object gives the newest version of all. A watch from the
// cache's own version then brings what the cache may lack, and at last the word that this
// was all. So a check costs two requests, however many objects there are.
func (c *Cache) check(ctx context.Context) bool {
	began, from := time.Now(), c.version()
	newest, err := c.newest(ctx)
	absent := apierrors.IsNotFound(err) // the API server knows no such resource any more
	if err != nil && !absent {
		c.cannotRead(ctx, began, err)
		return false
	}
	c.canRead()
	if !absent && !atLeast(from, newest) {
		changes, complete, err := c.changes(ctx, from, newest)
		switch {
		case ctx.Err() != nil:
			return false
		case expired(err):
			c.readAll() // it may have missed something, and cannot be told any more
			return false
		case err != nil:
			c.cannotRead(ctx, began, err)
			return false
		}
		c.noteSilence(!complete)
		switch lacks := c.lacks(ctx, changes); {
		case ctx.Err() != nil:
			return false
		case lacks != nil:
			c.proveWrong(*lacks)
			return false
		case !complete:
			c.readAll()
			return false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrong == nil && c.current.Before(began) {
		c.current = began
	}
	return c.wrong == nil && !c.silent
}

// readAll has the cache read anew.
func (c *Cache) readAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restart()
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

// changes returns the changes since a version. complete reports whether the API server has
// said that these are all up to the newest version.
func (c *Cache) changes(ctx context.Context, from, newest string) (changes []version, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	seconds := int64(watchSeconds)
	w, err := c.o.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if ctx.Err() != nil {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer w.Stop()
	for {
		var event watch.Event
		var ok bool
		select {
		case <-ctx.Done():
			return changes, false, nil
		case event, ok = <-w.ResultChan():
		}
		if !ok {
			return changes, false, nil
		}
		if event.Type == watch.Error {
			return nil, false, apierrors.FromObject(event.Object)
		}
		v := version{version: versionOf(event.Object), deleted: event.Type == watch.Deleted}
		if event.Type != watch.Bookmark {
			if v.key, err = cache.MetaNamespaceKeyFunc(event.Object); err == nil {
				changes = append(changes, v)
			}
		}
		if atLeast(v.version, newest) {
			return changes, true, nil
		}
	}
}

// lacks returns a version that the cache still lacks when it has had time to get it, and nil if
// there is none.
func (c *Cache) lacks(ctx context.Context, changes []version) *version {
	for deadline := time.Now().Add(grace); ; {
		var lacks *version
		for i := range changes {
			if !c.has(changes[i]) {
				lacks = &changes[i]
				break
			}
		}
		if lacks == nil || time.Now().After(deadline) || !waiting.For(ctx, 20*time.Millisecond) {
			return lacks
		}
	}
}

// cannotRead takes note of a read that failed, and when it began.
func (c *Cache) cannotRead(ctx context.Context, began time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadable == nil {
		c.unreadableSince = began
	}
	c.unreadable = err
	if !c.said && time.Since(c.unreadableSince) >= unreadableAfter {
		c.said = true
		c.o.Logger.Warn("the API server cannot be read, so the cache may be old; this replica stays ready and works with it", "cache", c.o.Name, "age", time.Since(c.current).Round(time.Millisecond), "error", err)
	}
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
		c.o.Logger.Warn("watches deliver nothing, not even bookmarks; the cache is read by lists, which cost more", "cache", c.o.Name)
	case !silent && c.silent:
		c.o.Logger.Info("watches work again", "cache", c.o.Name)
	}
	c.silent = silent
}
