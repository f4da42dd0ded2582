package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

func someLimits() *limits { return newLimits(Memory{Small: 4, Large: 64 * mib, LargeWorkers: 2}) }

func mustTake(t *testing.T, l *limits, namespace string, bytes int64) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, err := l.take(ctx, namespace, bytes)
	if err != nil {
		t.Fatalf("%s wants %d bytes: %v", namespace, bytes, err)
	}
	return release
}

// One namespace holds what it may; twelve reviews of it and one of another namespace wait.
func TestANamespaceWithManyReviewsDoesNotKeepOthersWaiting(t *testing.T) {
	for _, bytes := range []int64{1, 8 * mib} {
		synctest.Test(t, func(t *testing.T) {
			l := someLimits()
			first, second := mustTake(t, l, "flood", bytes), mustTake(t, l, "flood", bytes)
			var mu sync.Mutex
			var order []string
			var all sync.WaitGroup
			want := func(namespace string) {
				all.Go(func() {
					release := mustTake(t, l, namespace, bytes)
					mu.Lock()
					order = append(order, namespace)
					mu.Unlock()
					time.Sleep(time.Second)
					release()
				})
				synctest.Wait()
			}
			for range 12 {
				want("flood")
			}
			want("shop")
			first()
			second()
			all.Wait()
			if at := slices.Index(order, "shop"); at > 1 {
				t.Errorf("served in the order %v; shop has to be among the first two", order)
			}
		})
	}
}

// Whatever namespaces do at the same time, no more is taken than there is, and all of it is
// given back.
func TestNoMoreIsTakenThanThereIs(t *testing.T) {
	l := someLimits()
	var all sync.WaitGroup
	var small, large, bytes atomic.Int64
	for i := range 64 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3000))*time.Microsecond)
				n := 1 + r.Int64N(mib<<r.IntN(6))
				release, err := l.take(ctx, fmt.Sprint(r.IntN(9)), n)
				if err == nil {
					workers, most := &small, int64(4)
					if n > smallWork {
						workers, most = &large, 2
					}
					if now := workers.Add(1); now > most {
						t.Errorf("%d hold memory at once", now)
					}
					if now := bytes.Add(n); now > 68*mib {
						t.Errorf("%d bytes are taken", now)
					}
					bytes.Add(-n)
					workers.Add(-1)
					release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	for _, lane := range []*lane{l.small, l.large} {
		if len(lane.namespaces) != 0 || !lane.all.TryAcquire(lane.size) {
			t.Errorf("at the end %d namespaces are remembered, or something is taken", len(lane.namespaces))
		}
	}
}
