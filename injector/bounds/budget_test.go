package bounds

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

func budget() *Budget {
	return NewBudget(BudgetOptions{Small: 4 * Small, Large: 64 * Small, SmallWorkers: 4, LargeWorkers: 2})
}

func mustTake(t *testing.T, b *Budget, tenant string, bytes int64) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, err := b.Take(ctx, tenant, bytes)
	if err != nil {
		t.Fatalf("%s wants %d bytes: %v", tenant, bytes, err)
	}
	return release
}

func TestWhatIsLargerThanTheBudgetIsRefusedAtOnce(t *testing.T) {
	b := budget()
	defer mustTake(t, b, "shop", 60*Small)()
	var tooLarge *TooLargeError
	if _, err := b.Take(t.Context(), "shop", 64*Small+1); !errors.As(err, &tooLarge) || tooLarge.Bytes != 64*Small+1 || tooLarge.Most != 64*Small {
		t.Errorf("%v, want a TooLargeError", err)
	}
	mustTake(t, budget(), "shop", 64*Small)()
}

func TestSmallRequestsDoNotWaitForLargeOnes(t *testing.T) {
	b := budget()
	defer mustTake(t, b, "shop", 60*Small)()
	defer mustTake(t, b, "shop", 4*Small)()
	mustTake(t, b, "shop", Small)()
	mustTake(t, b, "bank", 1)()
}

// Two requests hold all there is; twelve of one tenant and one of another one wait.
func TestATenantWithManyRequestsDoesNotKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget()
		first, second := mustTake(t, b, "flood", 8*Small), mustTake(t, b, "flood", 8*Small)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		want := func(tenant string) {
			all.Go(func() {
				release := mustTake(t, b, tenant, 8*Small)
				mu.Lock()
				order = append(order, tenant)
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

func TestALargeRequestIsNotOvertakenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget()
		release := mustTake(t, b, "a", 40*Small)
		served := make(chan struct{})
		go func() {
			mustTake(t, b, "b", 64*Small)()
			close(served)
		}()
		synctest.Wait()
		overtaken := make(chan struct{})
		go func() {
			mustTake(t, b, "c", 2*Small)()
			close(overtaken)
		}()
		synctest.Wait()
		select {
		case <-overtaken:
			t.Error("a later request was served first")
		default:
		}
		release()
		<-served
		<-overtaken
	})
}

func TestWhoGivesUpWaitingLeavesTheTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget()
		defer mustTake(t, b, "a", 40*Small)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := b.Take(ctx, "b", 60*Small)
			failed <- err
		}()
		synctest.Wait()
		mustTake(t, b, "c", 2*Small)() // once b has given up
		var busy *BusyError
		if err := <-failed; !errors.As(err, &busy) || !busy.Large || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a BusyError of a large request", err)
		}
	})
}

// Whatever tenants do at the same time, no more is taken than there is, and all of it is
// given back.
func TestNoMoreIsTakenThanThereIs(t *testing.T) {
	b := budget()
	var all sync.WaitGroup
	var working atomic.Int64
	for i := range 64 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(3000))*time.Microsecond)
				release, err := b.Take(ctx, fmt.Sprint(r.IntN(9)), 1+r.Int64N(Small<<r.IntN(6)))
				if err == nil {
					if n := working.Add(1); n > 6 {
						t.Errorf("%d hold memory at once", n)
					}
					if small, large := b.Taken(); small > 4*Small || large > 64*Small {
						t.Errorf("taken: %d and %d", small, large)
					}
					working.Add(-1)
					release()
					release() // a second time changes nothing
				}
				cancel()
			}
		})
	}
	all.Wait()
	if small, large := b.Taken(); small != 0 || large != 0 {
		t.Errorf("at the end %d and %d bytes are taken", small, large)
	}
	for _, l := range []*lane{&b.small, &b.large} {
		if len(l.tenants) != 0 {
			t.Errorf("%d tenants are remembered", len(l.tenants))
		}
	}
}
