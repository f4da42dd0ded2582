package namespaces

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

const (
	// maxReads bounds the concurrent reads, and readsPerSecond the reads that begin in a second, after a burst of
	// readsAtOnce: every client that reaches the webhook's port can name namespaces that do not exist.
	maxReads       = 8
	readsPerSecond = 50
	readsAtOnce    = 100
	// maxStubReads bounds the concurrent reads of namespaces with a stub in the cache. Such a namespace needs
	// megabytes. It exists, so its read waits for a slot instead of failing.
	maxStubReads = 2
	readTimeout  = 2 * time.Second
	stubTimeout  = 8 * time.Second
)

// live reads namespaces from the API server. Reads of stubs have slots of their own.
type live struct {
	client  metadata.Interface
	reads   singleflight.Group
	slots   *semaphore.Weighted
	limiter *rate.Limiter
	stubs   *semaphore.Weighted
}

func newLive(client metadata.Interface) *live {
	return &live{client: client, slots: semaphore.NewWeighted(maxReads), limiter: rate.NewLimiter(readsPerSecond, readsAtOnce), stubs: semaphore.NewWeighted(maxStubReads)}
}

// get reads a namespace. Concurrent callers share a read. If agrees returns false for the result of a read that
// began before the call, get shares the next read.
func (l *live) get(ctx context.Context, name string, stub bool, agrees func(*metav1.PartialObjectMetadata) bool) (*metav1.PartialObjectMetadata, error) {
	var ns *metav1.PartialObjectMetadata
	for range 2 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case read := <-l.reads.DoChan(name, func() (any, error) { return l.read(name, stub) }):
			if read.Err != nil {
				return nil, read.Err
			}
			if ns, _ = read.Val.(*metav1.PartialObjectMetadata); !read.Shared || agrees(ns) {
				return ns, nil
			}
		}
	}
	return ns, nil
}

// read reads a namespace within the bounds. It has a context of its own, because several callers share it.
func (l *live) read(name string, stub bool) (*metav1.PartialObjectMetadata, error) {
	timeout := readTimeout
	if stub {
		timeout = stubTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	switch {
	case stub:
		if l.stubs.Acquire(ctx, 1) != nil {
			return nil, tooMany(name)
		}
		defer l.stubs.Release(1)
	case !l.slots.TryAcquire(1):
		return nil, tooMany(name)
	default:
		defer l.slots.Release(1)
		if !l.limiter.Allow() {
			return nil, tooMany(name)
		}
	}
	return l.client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
}

func tooMany(name string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the cache has no current version of namespace %q, and too many namespaces are being read from the API server", name), 1)
}
