package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/follow/followtest"
	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
)

// running returns a cache of the server's namespaces that has been filled, and its log.
func running(t *testing.T, s *followtest.Server, change ...func(*follow.Options)) (*follow.Cache, *logtest.Log) {
	t.Helper()
	log := &logtest.Log{}
	o := follow.Options{
		Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return s.List(ctx, options)
		},
		Watch: s.Watch,
	}
	for _, f := range change {
		f(&o)
	}
	c := follow.New(o)
	runtest.Start(t, func(ctx context.Context) error { c.Run(ctx); return nil })
	runtest.Wait(t, "the cache is filled", c.HasSynced)
	runtest.Wait(t, "a watch stands", func() bool { return s.Standing.Load() > 0 })
	return c, log
}

// labelOf returns the label v of a namespace in the cache.
func labelOf(c *follow.Cache, name string) string {
	object, ok := c.Get(name)
	if !ok {
		return "(none)"
	}
	return object.(*metav1.PartialObjectMetadata).Labels["v"]
}

func v(value string) map[string]string { return map[string]string{"v": value} }

func TestTheFirstReadIsConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, _ := running(t, s)
		if got := labelOf(c, "shop"); got != "1" {
			t.Errorf("the cache has %q", got)
		}
		synctest.Wait()
		if all, consistent := s.Lists.Load(), s.Consistent.Load(); all == 0 || all != consistent {
			t.Errorf("%d of %d lists are consistent, want all: an API server's own cache may be old", consistent, all)
		}
	})
}

// Who waits for a filled cache would otherwise be ready before it knows what is in the cache.
func TestACacheIsFilledOnceItHasToldOfAllThatIsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		for i := range 100 {
			s.Put(fmt.Sprint("ns-", i), v("1"), nil)
		}
		var c *follow.Cache
		told, filled := 0, 0
		c = follow.New(follow.Options{
			Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Watch: s.Watch,
			List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return s.List(ctx, o) },
			Changed: func(string) {
				if told++; c.HasSynced() {
					t.Error("an object of the first read is told of after the cache was filled")
				}
			},
			Filled: func() { filled++ },
		})
		runtest.Start(t, func(ctx context.Context) error { c.Run(ctx); return nil })
		time.Sleep(time.Second)
		synctest.Wait()
		if !c.HasSynced() || told != 100 || filled != 1 {
			t.Errorf("told of %d objects of 100, and %d times that the cache is filled", told, filled)
		}
	})
}

// Whatever happens to the API server and its namespaces, the cache has in the end what the
// API server has, and each name that differs was told.
func TestWhateverHappensTheCacheIsRightInTheEnd(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 13))
				s := followtest.New()
				var mu sync.Mutex
				told := map[string]string{}
				var cache atomic.Pointer[follow.Cache]
				c, _ := running(t, s, func(o *follow.Options) {
					o.Changed = func(name string) {
						mu.Lock()
						defer mu.Unlock()
						if c := cache.Load(); c != nil {
							told[name] = labelOf(c, name)
						}
					}
				})
				cache.Store(c)
				want := map[string]string{}
				for i := range 60 {
					name := fmt.Sprint("ns-", r.IntN(6))
					switch n := r.IntN(10); {
					case n < 6:
						s.Put(name, v(fmt.Sprint(i)), nil)
						want[name] = fmt.Sprint(i)
					case n < 8 && want[name] != "" && want[name] != "(none)":
						s.Remove(name)
						want[name] = "(none)"
					case n == 8:
						s.Away.Store(true)
					case n == 9:
						s.Away.Store(false)
					}
					time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
				}
				s.Away.Store(false)
				runtest.Wait(t, "the cache has what the API server has", func() bool {
					for name, value := range want {
						if labelOf(c, name) != value {
							return false
						}
					}
					return true
				})
				mu.Lock()
				defer mu.Unlock()
				for name, value := range want {
					got, ok := told[name]
					// One that came and went while the cache could not know was never told.
					if neverThere := !ok && value == "(none)"; got != value && !neverThere {
						t.Errorf("%s: told %q (%v), want %q", name, got, ok, value)
					}
				}
			})
		})
	}
}

// With client-go's own back-off, a cache would be old for 30 s.
func TestAfterTheAPIServerWasAwayTheCacheIsCurrentSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, log := running(t, s)
		s.Away.Store(true)
		// Long enough that a back-off that doubles would be beyond its limit.
		time.Sleep(4 * time.Second)
		if n := s.Refused.Load(); n < 4 || n > 12 {
			t.Errorf("%d tries in four seconds, want one to two a second", n)
		}
		if state := c.State(); state.Err == nil || state.Age < 3*time.Second || state.Name() != "unreadable" {
			t.Errorf("while the API server is away the state is %+v", state)
		}
		s.Put("shop", v("2"), nil)
		s.Away.Store(false)
		if took := runtest.Wait(t, "the change", func() bool { return labelOf(c, "shop") == "2" }); took > time.Second {
			t.Errorf("%s until the change", took)
		}
		if took := runtest.Wait(t, "the state", func() bool { return c.State().Err == nil && c.Err() == nil }); took > time.Second {
			t.Errorf("%s until the state", took)
		}
		if n, m := log.Count("cannot be read"), log.Count("can be read again"); n != 1 || m != 1 {
			t.Errorf("the log has %d times that the API server cannot be read, and %d times that it can", n, m)
		}
	})
}

func TestTheAgeOfACacheIsTheTimeSinceTheLastEventOrBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, _ := running(t, s)
		for range 600 { // ten minutes, longer than a watch
			time.Sleep(time.Second)
			if age := c.State().Age; age > 65*time.Second {
				t.Fatalf("the cache is %s old, with a bookmark every minute", age)
			}
		}
		s.Put("shop", v("2"), nil)
		if took := runtest.Wait(t, "the event", func() bool { return c.State().Age < 20*time.Millisecond }); took > time.Second {
			t.Errorf("%s until the event", took)
		}
	})
}

func TestACacheWithoutEventsAndBookmarksAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		c, _ := running(t, s)
		s.Deafen()
		time.Sleep(2 * time.Minute) // a watch lasts five at least
		if age := c.State().Age; age < 2*time.Minute {
			t.Errorf("after two minutes the cache is %s old", age)
		}
	})
}
