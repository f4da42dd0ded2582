// Package reconcile is the loop of the controllers that write to the cluster: a queue of keys, and for each key a
// function that decides and makes one write at most.
//
// In: keys, from caches that hear of changes. Out: calls of the function, never two of one key at the same time.
// Imports: client-go's work queue, and nothing of this module.
package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Never is the result for a key that is reconciled only when it is added again.
const Never time.Duration = -1

// Loop reconciles keys. [NewLoop] returns one. It has goroutines until [Loop.Run] or [Loop.End] ends it.
type Loop[K comparable] struct {
	queue workqueue.TypedRateLimitingInterface[K]
}

// NewLoop returns a loop that retries a failed key: after the first pause, then after twice as long each time, up to
// the last pause.
func NewLoop[K comparable](first, last time.Duration) *Loop[K] {
	return &Loop[K]{workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](first, last))}
}

// Add queues a key. It does not wait.
func (l *Loop[K]) Add(key K) { l.queue.Add(key) }

// AddAfter queues a key after a time. It does not wait.
func (l *Loop[K]) AddAfter(key K, d time.Duration) { l.queue.AddAfter(key, d) }

// Failures returns how often a key has failed in a row.
func (l *Loop[K]) Failures(key K) int { return l.queue.NumRequeues(key) }

// End ends the loop. Keys that are added afterwards are dropped.
func (l *Loop[K]) End() { l.queue.ShutDown() }

// Run calls reconcile with each key that was added, until ctx ends. reconcile returns the time until the key is
// reconciled again, or [Never]. A key with an error is retried after the loop's pause.
func (l *Loop[K]) Run(ctx context.Context, workers int, reconcile func(ctx context.Context, key K) (time.Duration, error)) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		<-ctx.Done()
		l.End()
	})
	for range workers {
		running.Go(func() {
			for {
				key, ended := l.queue.Get()
				if ended {
					return
				}
				if ctx.Err() == nil {
					again, err := reconcile(ctx, key)
					l.addAgain(key, again, err)
				}
				l.queue.Done(key)
			}
		})
	}
}

func (l *Loop[K]) addAgain(key K, after time.Duration, err error) {
	if err != nil {
		l.queue.AddRateLimited(key)
		return
	}
	l.queue.Forget(key)
	if after >= 0 {
		l.queue.AddAfter(key, after)
	}
}
