package webhook

import (
	"context"
	"errors"
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

func TestWhatIsLargerThanTheMemoryIsRefusedAtOnce(t *testing.T) {
	l := someLimits()
	defer mustTake(t, l, "shop", 60*mib)()
	var tooLarge *tooLargeError
	if _, err := l.take(t.Context(), "shop", 64*mib+1); !errors.As(err, &tooLarge) || tooLarge.bytes != 64*mib+1 || tooLarge.most != 64*mib {
		t.Errorf("%v, want a tooLargeError", err)
	}
	mustTake(t, someLimits(), "shop", 64*mib)()
}

func TestSmallReviewsDoNotWaitForLargeOnes(t *testing.T) {
	l := someLimits()
	defer mustTake(t, l, "shop", 64*mib)()
	defer mustTake(t, l, "shop", mib)()
	mustTake(t, l, "shop", mib)()
	mustTake(t, l, "bank", 1)()
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

func TestALargeReviewIsNotOvertakenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := someLimits()
		release := mustTake(t, l, "a", 40*mib)
		var order []string
		var all sync.WaitGroup
		for _, bytes := range []int64{64 * mib, 2 * mib} {
			all.Go(func() {
				done := mustTake(t, l, fmt.Sprint(bytes), bytes)
				order = append(order, fmt.Sprint(bytes>>20))
				done()
			})
			synctest.Wait()
		}
		release()
		all.Wait()
		if !slices.Equal(order, []string{"64", "2"}) {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestWhoGivesUpWaitingLeavesTheTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := someLimits()
		defer mustTake(t, l, "a", 30*mib)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := l.take(ctx, "b", 60*mib)
			failed <- err
		}()
		synctest.Wait()
		mustTake(t, l, "c", 2*mib)() // once b has given up
		var busy *busyError
		if err := <-failed; !errors.As(err, &busy) || !busy.large || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a busyError of a large review", err)
		}
	})
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
