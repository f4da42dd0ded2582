package namespaces

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"golang.org/x/time/rate"
)

// A live read is for a namespace that was made a moment ago: the cache has it within
// milliseconds. Everybody who reaches the webhook's port can ask for namespaces that do
// not exist, so live reads are few.
const (
	// liveReads is how many run at the same time, and livePerSecond how many begin in a
	// second, after a burst of liveBurst.
	liveReads     = 8
	livePerSecond = 50
	liveBurst     = 100
	// liveTimeout bounds one.
	liveTimeout = 2 * time.Second
	// absentFor is how long a name that does not exist is not asked for again.
	absentFor = time.Second
	// absentNames bounds how many such names are remembered.
	absentNames = 1024
)

// liveReader reads namespaces from the API server, within bounds of its own.
type liveReader struct {
	client  metadata.Interface
	slots   chan struct{}
	limiter *rate.Limiter

	mu sync.Mutex
	// absent has until when a name that does not exist is not asked for.
	absent map[string]time.Time
}

func newLiveReader(client metadata.Interface) *liveReader {
	return &liveReader{
		client: client, slots: make(chan struct{}, liveReads), limiter: rate.NewLimiter(livePerSecond, liveBurst),
		absent: map[string]time.Time{},
	}
}

// get reads a namespace. It never waits for other reads: over the bounds the error is
// TooManyRequests. A namespace that does not exist is NotFound, and TooManyRequests for
// the next second: it may have been made meanwhile, and then an API server that asks
// again finds it in the cache.
func (l *liveReader) get(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	if l.isAbsent(name) {
		return nil, tooMany(name)
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return nil, tooMany(name)
	}
	if !l.limiter.Allow() {
		return nil, tooMany(name)
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	object, err := l.client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l.setAbsent(name)
	}
	return object, err
}

func tooMany(name string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("namespace %q is not in the cache yet, and as many namespaces are being read as may be", name), 1)
}

func (l *liveReader) isAbsent(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.absent[name])
}

func (l *liveReader) setAbsent(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.absent) >= absentNames {
		clear(l.absent)
	}
	l.absent[name] = time.Now().Add(absentFor)
}
