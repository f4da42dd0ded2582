package effects

import (
	"sync"
	"time"
)

// The bounds of events.
const (
	// repeatAfter is how long an equal event is not written again.
	repeatAfter = 5 * time.Minute
	// remembered is how many events are remembered as written, for that.
	remembered = 4096
	// A namespace may have namespaceBurst events at once, and one more every
	// namespaceInterval. All namespaces that the cache does not know count as one.
	namespaceBurst    = 10
	namespaceInterval = 10 * time.Second
	// namespacesCounted is how many namespaces are counted apart from the others.
	namespacesCounted = 4096
)

// bounds decide which events are written. They hold a bounded number of entries, whatever is
// asked of them.
type bounds struct {
	mu      sync.Mutex
	written map[string]time.Time
	buckets map[string]*bucket
	// swept is when full buckets were last looked for.
	swept time.Time
}

// bucket counts the events of one namespace.
type bucket struct {
	left   float64
	filled time.Time
}

func newBounds() *bounds {
	return &bounds{written: map[string]time.Time{}, buckets: map[string]*bucket{}}
}

// allow reports whether an event may be written now, and takes note of it if so. The
// namespace is "" for one that the cache does not know.
func (b *bounds) allow(key, namespace string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.written[key]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	if !b.take(namespace, now) {
		return false
	}
	if len(b.written) >= remembered {
		b.forgetOld(now)
	}
	b.written[key] = now
	return true
}

// forget lets an event be written again, because it was not written.
func (b *bounds) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.written, key)
}

// take takes one event of the namespace's bucket.
func (b *bounds) take(namespace string, now time.Time) bool {
	if b.buckets[namespace] == nil && len(b.buckets) >= namespacesCounted {
		if b.sweep(now); len(b.buckets) >= namespacesCounted {
			return false
		}
	}
	own := b.buckets[namespace]
	if own == nil {
		own = &bucket{left: namespaceBurst, filled: now}
		b.buckets[namespace] = own
	}
	own.fill(now)
	if own.left < 1 {
		return false
	}
	own.left--
	return true
}

// sweep drops full buckets, which are as good as none. It does so once a second at most.
func (b *bounds) sweep(now time.Time) {
	if now.Sub(b.swept) < time.Second {
		return
	}
	b.swept = now
	for name, other := range b.buckets {
		if other.fill(now); other.left >= namespaceBurst {
			delete(b.buckets, name)
		}
	}
}

func (b *bucket) fill(now time.Time) {
	if gone := now.Sub(b.filled); gone > 0 {
		b.left = min(namespaceBurst, b.left+float64(gone)/float64(namespaceInterval))
		b.filled = now
	}
}

// forgetOld makes room: it drops what is over, or else everything. Events are repeated then,
// within the rates.
func (b *bounds) forgetOld(now time.Time) {
	for key, at := range b.written {
		if now.Sub(at) >= repeatAfter {
			delete(b.written, key)
		}
	}
	if len(b.written) >= remembered {
		clear(b.written)
	}
}
