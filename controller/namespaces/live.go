package namespaces

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/templates"
)

// A live read is for a namespace that was made or changed a moment ago: the cache has it
// within milliseconds. Everybody who reaches the webhook's port can ask for namespaces that
// do not exist, so live reads are few. Large namespaces, of which the cache keeps a part, have
// bounds of their own: they take nothing from the others.
const (
	// liveReads is how many run at the same time, and livePerSecond how many begin in a
	// second, after a burst of liveBurst.
	liveReads     = 8
	livePerSecond = 50
	liveBurst     = 100
	// largeReads and largePerSecond are the same for large namespaces, each of which takes
	// megabytes while it is read. Their reads wait for their turn: each is for a namespace that
	// there is. largeTimeout bounds one with its wait.
	largeReads, largePerSecond, largeBurst = 2, 20, 20
	largeTimeout                           = 8 * time.Second
	// liveTimeout bounds one.
	liveTimeout = 2 * time.Second
	// readPause is the least time between the beginnings of two reads of one namespace:
	// however many reviews there are of it, it takes less than half of livePerSecond.
	readPause = 50 * time.Millisecond
	// rememberFor is how long what a read has brought answers reviews that it agrees with.
	rememberFor = 250 * time.Millisecond
	// absentFor is how long a name that does not exist is not asked for again.
	absentFor = time.Second
	// absentNames bounds how many such names are remembered.
	absentNames = 1024
)

// liveReader reads namespaces from the API server, within bounds of its own.
type liveReader struct {
	client metadata.Interface
	saw    func(name, version string)
	// others is for all but large namespaces.
	large, others bounded

	mu sync.Mutex
	// names are the namespaces that are being read, or were a moment ago.
	names map[string]*reading
	// absent has until when a name that does not exist is not asked for.
	absent map[string]time.Time
}

// bounded is how many reads run and begin.
type bounded struct {
	slots   *semaphore.Weighted
	limiter *rate.Limiter
}

func newBounded(reads int64, perSecond rate.Limit, burst int) bounded {
	return bounded{semaphore.NewWeighted(reads), rate.NewLimiter(perSecond, burst)}
}

// take takes a slot, and reports whether there was one.
func (b bounded) take() bool {
	if !b.slots.TryAcquire(1) {
		return false
	}
	if !b.limiter.Allow() {
		b.slots.Release(1)
		return false
	}
	return true
}

// wait takes a slot as soon as it may.
func (b bounded) wait(ctx context.Context) error {
	if err := b.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := b.limiter.Wait(ctx); err != nil {
		b.slots.Release(1)
		return err
	}
	return nil
}

// reading are the reads of one namespace.
type reading struct {
	// next is the read that waits to begin. It is nil if nobody waits for one.
	next *read
	// busy reports whether [liveReader.run] takes care of next.
	busy bool
	// last is the last read that succeeded.
	last *read
}

// read is one request, for everybody who waits for it.
type read struct {
	done  chan struct{}
	large bool
	// The rest is set when done is closed. at is when the request began.
	ns  templates.Namespace
	err error
	at  time.Time
}

func newLiveReader(client metadata.Interface, saw func(name, version string)) *liveReader {
	return &liveReader{
		client: client, saw: saw, large: newBounded(largeReads, largePerSecond, largeBurst), others: newBounded(liveReads, livePerSecond, liveBurst),
		names: map[string]*reading{}, absent: map[string]time.Time{},
	}
}

// get reads a namespace, which may be known to be large. All who ask at the same time share a
// read, and a read that has brought what agrees answers for a moment more. One that had begun
// before the caller asked, and does not agree, proves nothing: then get waits for one that begins
// now.
//
// It waits for no read of other namespaces: over the bounds the error is TooManyRequests. A large
// one waits for its turn among the large ones, and gets that error when largeTimeout is over. A
// namespace that does not exist is NotFound, and TooManyRequests for the next second: it may
// have been made meanwhile, and then an API server that asks again finds it in the cache.
func (l *liveReader) get(ctx context.Context, name string, large bool, agrees func(templates.Namespace) bool) (templates.Namespace, error) {
	r, err := l.join(name, large, agrees)
	if err != nil {
		return templates.Namespace{}, err
	}
	select {
	case <-ctx.Done():
		return templates.Namespace{}, ctx.Err()
	case <-r.done:
		return r.ns, r.err
	}
}

// join returns the read whose answer the caller may use.
func (l *liveReader) join(name string, large bool, agrees func(templates.Namespace) bool) (*read, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.absent[name]) {
		return nil, tooMany(name)
	}
	n := l.names[name]
	if n == nil {
		n = &reading{}
		l.names[name] = n
	}
	if n.last != nil && time.Since(n.last.at) < rememberFor && agrees(n.last.ns) {
		return n.last, nil
	}
	if n.next == nil {
		n.next = &read{done: make(chan struct{}), large: large}
	}
	if !n.busy {
		n.busy = true
		go l.run(name, n)
	}
	return n.next, nil
}

// run makes the read that somebody waits for, and comes again after a pause until nobody does.
func (l *liveReader) run(name string, n *reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := n.next
	n.next = nil
	if r == nil {
		n.busy = false
		time.AfterFunc(rememberFor, func() { l.forget(name, n) })
		return
	}
	began := time.Now()
	l.mu.Unlock()
	l.read(name, r)
	l.mu.Lock()
	close(r.done)
	switch {
	case r.err == nil:
		n.last = r
	case apierrors.IsNotFound(r.err):
		l.setAbsent(name)
	}
	if r.err != nil && n.last == nil && n.next == nil {
		delete(l.names, name) // others may ask for many names
		return
	}
	time.AfterFunc(readPause-time.Since(began), func() { l.run(name, n) })
}

// forget forgets a namespace that nobody asks for.
func (l *liveReader) forget(name string, n *reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !n.busy && l.names[name] == n {
		delete(l.names, name)
	}
}

// read reads a namespace, if the bounds allow it. A large one waits for its turn. The read is not
// any one caller's: it goes on without them.
func (l *liveReader) read(name string, r *read) {
	bounds, timeout := l.others, liveTimeout
	if r.large {
		bounds, timeout = l.large, largeTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if r.large && bounds.wait(ctx) != nil || !r.large && !bounds.take() {
		r.err = tooMany(name)
		return
	}
	defer bounds.slots.Release(1) // before anybody learns that the read is over
	r.at = time.Now()
	object, err := l.client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		r.err = err
		return
	}
	r.ns = templates.Namespace{Name: object.Name, Labels: object.Labels, Annotations: annotationsOf(object)}
	l.saw(name, object.ResourceVersion)
}

func tooMany(name string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("namespace %q is not in the cache as it is now, and as many namespaces are being read as may be", name), 1)
}

func (l *liveReader) setAbsent(name string) {
	if len(l.absent) >= absentNames {
		clear(l.absent)
	}
	l.absent[name] = time.Now().Add(absentFor)
}
