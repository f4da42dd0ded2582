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

func mustTake(t *testing.T, r *room, namespace string, slots int64) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, err := r.acquire(ctx, namespace, slots)
	if err != nil {
		t.Fatalf("%s wants %d slots: %v", namespace, slots, err)
	}
	return release
}

// fill takes all slots of a room, or as many as large objects may have, until the test ends.
func fill(t *testing.T, r *room, withLarge bool) {
	t.Helper()
	if withLarge {
		t.Cleanup(mustTake(t, r, "large", r.largest))
		return
	}
	for i := range r.size {
		t.Cleanup(mustTake(t, r, fmt.Sprint("small-", i), 1))
	}
}

// One namespace holds what it may; twelve reviews of it and one of another namespace wait.
func TestANamespaceWithManyReviewsDoesNotKeepOthersWaiting(t *testing.T) {
	for _, slots := range []int64{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoom(8)
			var mu sync.Mutex
			var order []string
			var all sync.WaitGroup
			want := func(namespace string) {
				all.Go(func() {
					release := mustTake(t, r, namespace, min(slots, r.largest))
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
			all.Wait()
			if at := slices.Index(order, "shop"); at > 2 {
				t.Errorf("served in the order %v; shop has to be among the first three", order)
			}
		})
	}
}

// Four namespaces that flood Pillion leave the fifth its turn, and one large object leaves room for small ones.
func TestSlotsAreLeftForOthers(t *testing.T) {
	r := newRoom(16)
	for range 4 {
		defer mustTake(t, r, "flood", 1)()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.acquire(ctx, "flood", 1); err == nil {
		t.Error("a namespace has more than a quarter of the slots")
	}
	mustTake(t, r, "shop", 1)()

	r = newRoom(16)
	defer mustTake(t, r, "large", r.largest)()
	if _, err := r.acquire(ctx, "other", r.share+1); err == nil {
		t.Error("two large objects are worked on at once")
	}
	mustTake(t, r, "shop", 1)()
	held := memory{room: r}
	for _, ctx := range []context.Context{t.Context(), ctx} { // the second has ended
		if err := held.acquire(ctx, "shop", 1); err != nil {
			t.Errorf("a review waits again for the slots that it has: %v", err)
		}
	}
	var tooLarge *tooLargeError
	if err := held.acquireForPod(ctx, "shop", 0, held.limit()/2+1); !errors.As(err, &tooLarge) {
		t.Errorf("the work on a pod takes more than half of the memory: %v", err)
	}
}

// Whatever namespaces do at the same time, no more is taken than there is, and all of it is
// given back.
func TestNoMoreIsTakenThanThereIs(t *testing.T) {
	room := newRoom(16)
	var all sync.WaitGroup
	var taken, large atomic.Int64
	for i := range 64 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3000))*time.Microsecond)
				n := 1 + r.Int64N(room.largest)
				if release, err := room.acquire(ctx, fmt.Sprint(r.IntN(9)), n); err == nil {
					isLarge := int64(0)
					if n > room.share {
						isLarge = 1
					}
					if now := taken.Add(n); now > room.size {
						t.Errorf("%d slots are taken", now)
					}
					if now := large.Add(isLarge); now > 1 {
						t.Errorf("%d large objects are worked on", now)
					}
					large.Add(-isLarge)
					taken.Add(-n)
					release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if len(room.namespaces) != 0 || !room.all.TryAcquire(room.size) || !room.large.TryAcquire(1) {
		t.Errorf("at the end %d namespaces are remembered, or something is taken", len(room.namespaces))
	}
}
