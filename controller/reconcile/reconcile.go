// Package reconcile is the loop of the controllers that write to the cluster: a queue of names, and
// for each name a look, which decides and makes one write at most.
//
// In: names, from caches that hear of changes. Out: calls of the look, never two of one name at the
// same time. Imports: client-go's work queue, and nothing of this module.
package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Never is what a look returns that has nothing to do until its name is added again.
const Never time.Duration = -1

// Loop looks at names. Make one with [NewLoop]. It holds goroutines until [Loop.Run] or [Loop.End]
// ends it.
type Loop struct {
	queue workqueue.TypedDelayingInterface[string]
}

// NewLoop returns a loop that keeps names in an order, nil for the order in which they came.
func NewLoop(order workqueue.Queue[string]) *Loop {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: order})
	return &Loop{workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: queue})}
}

// Add has a name looked at. It does not wait.
func (l *Loop) Add(name string) { l.queue.Add(name) }

// AddAfter has a name looked at after a time. It does not wait.
func (l *Loop) AddAfter(name string, d time.Duration) { l.queue.AddAfter(name, d) }

// Len returns how many names wait to be looked at now.
func (l *Loop) Len() int { return l.queue.Len() }

// End ends the loop. Names that are added afterwards are dropped.
func (l *Loop) End() { l.queue.ShutDown() }

// Run calls look with each name that was added, until ctx ends. look returns after how long the name
// is to be looked at again, or [Never].
func (l *Loop) Run(ctx context.Context, workers int, look func(ctx context.Context, name string) time.Duration) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		<-ctx.Done()
		l.End()
	})
	for range workers {
		running.Go(func() {
			for {
				name, ended := l.queue.Get()
				if ended {
					return
				}
				if ctx.Err() == nil {
					if again := look(ctx, name); again >= 0 {
						l.queue.AddAfter(name, again)
					}
				}
				l.queue.Done(name)
			}
		})
	}
}
