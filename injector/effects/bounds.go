package effects

import (
	"sync"
	"time"
)

// The bounds of events.
const (
	// An equal event that comes again is counted, and the count is written firstRepeat after
	// the last write, then after twice as long each time, and every lastRepeat in the end.
	firstRepeat = 10 * time.Second
	lastRepeat  = 5 * time.Minute
	// forgetAfter is how long an event is remembered that does not come again.
	forgetAfter = 2 * lastRepeat
	// remembered is how many events are remembered, for that.
	remembered = 2048
	// A namespace may have namespaceBurst writes at once, and one more every
	// namespaceInterval. All namespaces that the cache does not know count as one. Counts
	// of known events leave namespaceReserve of them to new events.
	namespaceBurst    = 10
	namespaceReserve  = 5
	namespaceInterval = 10 * time.Second
	// namespacesCounted is how many namespaces are counted apart from the others.
	namespacesCounted = 4096
)

// bounds decide which events are written, and when. They hold a bounded number of entries,
// whatever is asked of them.
type bounds struct {
	mu     sync.Mutex
	series map[string]*series
	// waiting is how many series came again since their last write.
	waiting int
	buckets map[string]*bucket
	// swept is when full buckets were last looked for.
	swept time.Time
}

// series is an event that was written, or waits in the queue.
type series struct {
	// again is the event as it came since the last write, with how often. A count of 0 is
	// none.
	again note
	// counted is the namespace by whose bucket it is counted.
	counted string
	// last is when it came last, next the earliest moment of the next write, which is wait
	// after the one before.
	last, next time.Time
	wait       time.Duration
}

// bucket counts the events of one namespace.
type bucket struct {
	left   float64
	filled time.Time
}

func newBounds() *bounds {
	return &bounds{series: map[string]*series{}, buckets: map[string]*bucket{}}
}

// allow reports whether an event may be written now, and takes note of it. One that was
// written before is counted, and [bounds.due] returns it later. The namespace is "" for one
// that the cache does not know.
func (b *bounds) allow(n note, namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := n.key()
	if s, ok := b.series[key]; ok {
		if s.again.count == 0 {
			b.waiting++
		}
		count := s.again.count + n.count
		s.again, s.last = n, n.at
		s.again.count = min(count, maxCount)
		return false
	}
	if !b.take(namespace, n.at, 1) {
		return false
	}
	if len(b.series) >= remembered {
		b.forgetOld(n.at)
	}
	b.series[key] = &series{counted: namespace, last: n.at, next: n.at.Add(firstRepeat), wait: firstRepeat}
	return true
}

// due returns an event that came again, with how often since its last write, where its time
// has come. It returns false if there is none.
func (b *bounds) due(now time.Time) (note, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 {
		return note{}, false
	}
	for _, s := range b.series {
		if s.again.count == 0 || now.Before(s.next) || !b.take(s.counted, now, 1+namespaceReserve) {
			continue
		}
		n := s.again
		s.again = note{}
		b.waiting--
		s.wait = min(2*s.wait, lastRepeat)
		s.next = now.Add(s.wait)
		return n, true
	}
	return note{}, false
}

// forget lets an event be written as a new one, because it was not written.
func (b *bounds) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(key)
}

func (b *bounds) drop(key string) {
	if s, ok := b.series[key]; ok {
		if s.again.count > 0 {
			b.waiting--
		}
		delete(b.series, key)
	}
}

// take takes one event of the namespace's bucket, if the bucket has at least so many.
func (b *bounds) take(namespace string, now time.Time, least float64) bool {
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
	if own.left < least {
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

// forgetOld makes room: it drops what did not come again for long, or else everything. Events
// go on with their series then, within the rates.
func (b *bounds) forgetOld(now time.Time) {
	for key, s := range b.series {
		if now.Sub(s.last) >= forgetAfter {
			b.drop(key)
		}
	}
	if len(b.series) >= remembered {
		clear(b.series)
		b.waiting = 0
	}
}
