package follow

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// ReplacedCounts is how long a version that another one has replaced is remembered. An API server
// has a new pod mutated, and then verified: in between lie the other webhooks, and the time by
// which one replica is behind another.
const ReplacedCounts = 5 * time.Second

const (
	// mostReplaced bounds the versions of one key that are remembered where nobody asks for fewer,
	// and mostKeys the keys.
	mostReplaced = 16
	mostKeys     = 1024
)

// Replaced remembers for a moment the versions that others have replaced, by their key. The zero
// value is ready.
type Replaced[T any] struct {
	// Most bounds the versions of one key (default 16).
	Most int

	mu       sync.Mutex
	versions map[string][]replaced[T]
}

type replaced[T any] struct {
	version T
	until   time.Time
}

// Add says that the version of a key was replaced just now.
func (r *Replaced[T]) Add(key string, version T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = map[string][]replaced[T]{}
	}
	all, known := r.versions[key]
	if !known && len(r.versions) >= mostKeys {
		return
	}
	all = append([]replaced[T]{{version, time.Now().Add(ReplacedCounts)}}, all...)
	r.versions[key] = all[:min(len(all), cmp.Or(r.Most, mostReplaced))]
	time.AfterFunc(ReplacedCounts, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forget(key)
	})
}

// Of returns the versions of a key that were replaced a moment ago, the last one first.
func (r *Replaced[T]) Of(key string) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(key)
	var versions []T
	for _, v := range r.versions[key] {
		versions = append(versions, v.version)
	}
	return versions
}

// forget drops what has been remembered long enough. The caller holds the lock.
func (r *Replaced[T]) forget(key string) {
	left := slices.DeleteFunc(r.versions[key], func(v replaced[T]) bool { return !time.Now().Before(v.until) })
	if len(left) == 0 {
		delete(r.versions, key)
		return
	}
	r.versions[key] = left
}
