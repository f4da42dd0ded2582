package follow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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
		Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Client: s, Checked: true, Logger: slog.New(slog.NewTextHandler(log, nil)),
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
	within(t, 10*time.Second, "the cache is filled", c.HasSynced)
	within(t, 10*time.Second, "a watch stands", func() bool { return s.Standing.Load() > 0 })
	return c, log
}

// within waits until something is so, and returns how long that took.
func within(t *testing.T, limit time.Duration, event string, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > limit {
			t.Fatalf("not done within %s: %s", limit, event)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
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
			Name: "namespaces", Example: &metav1.PartialObjectMetadata{}, Client: s, Watch: s.Watch,
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

// A cache that read in a few pauses of 30 s would be wrong for as long.
func TestAfterTheAPIServerWasAwayTheCacheIsCurrentSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, log := running(t, s)
		s.Away.Store(true)
		// Long enough that a back-off that doubles would be beyond its limit.
		time.Sleep(4 * time.Second)
		if n := s.Refused.Load(); n < 4 || n > 20 {
			t.Errorf("%d tries in four seconds, want one to two a second by the watch, and one by the checks", n)
		}
		if cmp.Or(c.Failed("list"), c.Failed("watch")) == nil {
			t.Error("no error while the API server is away")
		}
		if state := c.State(); state.Unreadable == nil || state.Wrong != nil || state.Age < 3*time.Second || state.Name() != "unreadable" {
			t.Errorf("while the API server is away the state is %+v", state)
		}
		s.Put("shop", v("2"), nil)
		s.Away.Store(false)
		within(t, time.Second, "the change", func() bool { return labelOf(c, "shop") == "2" })
		within(t, 2*time.Second, "the state", func() bool { return c.State().Unreadable == nil && cmp.Or(c.Failed("list"), c.Failed("watch")) == nil })
		if n, m := log.Count("cannot be read"), log.Count("can be read again"); n != 1 || m != 1 {
			t.Errorf("the log says %d times that the API server cannot be read, and %d times that it can", n, m)
		}
	})
}

// The connection stands, lists are answered, and the watch brings nothing.
func TestAWatchThatHangsIsFoundAndTheCacheIsReadAnew(t *testing.T) {
	standing, every := (*followtest.Server).Deafen, func(s *followtest.Server) { s.Silent.Store(true) }
	for name, c := range map[string]struct{ hang, change func(*followtest.Server) }{
		"the watch that stands, a change":   {standing, func(s *followtest.Server) { s.Put("shop", v("2"), nil) }},
		"the watch that stands, a deletion": {standing, func(s *followtest.Server) { s.Remove("shop") }},
		"every watch, a new object":         {every, func(s *followtest.Server) { s.Put("bank", v("2"), nil) }},
		"every watch, a deletion":           {every, func(s *followtest.Server) { s.Remove("shop") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := followtest.New()
				s.Put("shop", v("1"), nil)
				cache, log := running(t, s)
				c.hang(s)
				c.change(s)
				took := within(t, 13*time.Second, "a proof that the cache is wrong", func() bool { return cache.State().Proofs > 0 })
				t.Logf("proven wrong after %s", took)
				within(t, time.Second, "the cache is right", func() bool {
					return cache.Wrong() == nil && (labelOf(cache, "bank") == "2" || labelOf(cache, "shop") == "2" || labelOf(cache, "shop") == "(none)")
				})
				if proven := log.Count("is wrong, and is read again") > 0 && log.Count("is current again") > 0; !proven && log.Count("watches deliver nothing") == 0 {
					t.Errorf("the log is\n%s", log.String())
				}
			})
		})
	}
}

// Once it is known that watches bring nothing, the cache is not a check behind.
func TestWhileWatchesBringNothingTheCacheIsReadEveryFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, log := running(t, s)
		s.Silent.Store(true)
		s.Elsewhere()
		within(t, 14*time.Second, "the silence is known", func() bool { return log.Count("watches deliver nothing") > 0 })
		for i := range 5 {
			value := fmt.Sprint("later ", i)
			s.Put("shop", v(value), nil)
			within(t, 5*time.Second, "the change", func() bool { return labelOf(c, "shop") == value })
		}
		synctest.Wait() // what a read shows is counted once the cache has it
		if state := c.State(); state.Age > 5*time.Second || state.Proofs != 5 {
			t.Errorf("the state is %+v, want one proof for each change", state)
		}
		s.Silent.Store(false)
		s.Elsewhere()
		within(t, 5*time.Second, "watches work", func() bool { return log.Count("watches work again") == 1 })
	})
}

func TestAWrongCacheStaysWrongUntilItIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		var lists atomic.Bool
		lists.Store(true)
		c, _ := running(t, s, func(o *follow.Options) {
			list := o.List
			o.List = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				if options.Limit != 1 && !lists.Load() {
					return nil, errors.New("not now")
				}
				return list(ctx, options)
			}
		})
		lists.Store(false)
		s.Deafen()
		s.Put("shop", v("2"), nil)
		within(t, 13*time.Second, "wrong", func() bool { return c.Wrong() != nil })
		time.Sleep(500 * time.Millisecond)
		if err := c.Wrong(); err == nil || !strings.Contains(err.Error(), `"shop"`) {
			t.Errorf("while nothing can be read anew: %v", err)
		}
		lists.Store(true)
		within(t, 2*time.Second, "right", func() bool { return c.Wrong() == nil && labelOf(c, "shop") == "2" })
	})
}

func TestAVersionThatSomebodySawProvesTheCacheWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, _ := running(t, s, func(o *follow.Options) { o.Checked = false })
		s.Deafen()
		version := s.Put("shop", v("2"), nil)
		c.Saw("shop", version)
		if c.Wrong() != nil {
			t.Error("wrong at once: a watch takes its time")
		}
		within(t, time.Second, "read anew", func() bool { return labelOf(c, "shop") == "2" && c.State().Proofs == 1 && c.Wrong() == nil })
		for _, version := range []string{version, "1", "", "none"} {
			c.Saw("shop", version)
		}
		time.Sleep(1200 * time.Millisecond)
		if n := c.State().Proofs; n != 1 {
			t.Errorf("what the cache has, and what cannot be compared, prove nothing: %d proofs", n)
		}
	})
}

// The age does not grow while nothing changes, with and without changes of other resources.
func TestTheAgeOfACacheIsTheTimeSinceItWasKnownToBeCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		c, _ := running(t, s)
		// The first check may begin before the first watch, which then has it done once more.
		time.Sleep(5 * time.Second)
		before := s.Lists.Load() + s.Watches.Load()
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
			s.Elsewhere()
			if state := c.State(); state.Age > 13*time.Second || state.Name() != "current" || state.Proofs > 0 {
				t.Fatalf("after %s the state is %+v", time.Since(began), state)
			}
		}
		if n := s.Lists.Load() + s.Watches.Load() - before; n > 12 {
			t.Errorf("%d requests in a minute, want a list and a watch every ten seconds", n)
		}
	})
}

func TestACheckCostsTheSameForTenThousandNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		for i := range 10_000 {
			s.Put(fmt.Sprint("ns-", i), v("1"), nil)
		}
		c, _ := running(t, s)
		synctest.Wait() // no list is half counted
		lists, objects := s.Lists.Load(), s.Listed.Load()
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			s.Elsewhere()
		}
		synctest.Wait()
		lists, objects = s.Lists.Load()-lists, s.Listed.Load()-objects
		if lists == 0 || objects > lists {
			t.Errorf("%d checks have read %d namespaces, want at most one each", lists, objects)
		}
		if len(c.List()) != 10_000 {
			t.Errorf("the cache has %d", len(c.List()))
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
					switch n := r.IntN(12); {
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
						s.Silent.Store(false)
					case n == 10:
						s.Silent.Store(true)
					case n == 11:
						s.Deafen()
					}
					time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
				}
				s.Away.Store(false)
				s.Silent.Store(false)
				within(t, 15*time.Second, "the cache has what the API server has", func() bool {
					for name, value := range want {
						if labelOf(c, name) != value {
							return false
						}
					}
					return c.Wrong() == nil
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

func TestTheMetricsSayTheStateOfEachCache(t *testing.T) {
	states := func() map[string]follow.State {
		return map[string]follow.State{"namespaces": {Age: 1500 * time.Millisecond}, "templates": {Wrong: fmt.Errorf("x"), Proofs: 2}}
	}
	want := `
# HELP pillion_cache_age_seconds Time since a cache was last known to be current. It is less than 15 seconds while all is well.
# TYPE pillion_cache_age_seconds gauge
pillion_cache_age_seconds{cache="namespaces"} 1.5
pillion_cache_age_seconds{cache="templates"} 0
# HELP pillion_cache_state 1 for the state that a cache is in. unreadable: the API server cannot be asked, and the replica stays ready. wrong: the API server has what the cache lacks, and the replica is not ready.
# TYPE pillion_cache_state gauge
pillion_cache_state{cache="namespaces",state="current"} 1
pillion_cache_state{cache="namespaces",state="unreadable"} 0
pillion_cache_state{cache="namespaces",state="wrong"} 0
pillion_cache_state{cache="templates",state="current"} 0
pillion_cache_state{cache="templates",state="unreadable"} 0
pillion_cache_state{cache="templates",state="wrong"} 1
# HELP pillion_cache_wrong_total How often the API server has shown a cache to be wrong.
# TYPE pillion_cache_wrong_total counter
pillion_cache_wrong_total{cache="namespaces"} 0
pillion_cache_wrong_total{cache="templates"} 2
`
	if err := testutil.CollectAndCompare(follow.NewCollector(states), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestAnObjectIsRemadeInTheVersionThatTheCacheHasAndInNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", v("1"), nil)
		var made, told atomic.Int64
		c, _ := running(t, s, func(o *follow.Options) {
			o.Transform = func(object any) (any, error) {
				if ns, ok := object.(*metav1.PartialObjectMetadata); ok && ns.Labels["made"] == "" {
					ns = ns.DeepCopy()
					ns.Labels["made"] = fmt.Sprint(made.Load())
					return ns, nil
				}
				return object, nil
			}
			o.Changed = func(string) { told.Add(1) }
		})
		object, _ := c.Get("shop")
		kept := object.(*metav1.PartialObjectMetadata)
		read := func(name, version string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Labels: v("1")}}
		}
		made.Store(7)
		before := told.Load()
		for _, other := range []*metav1.PartialObjectMetadata{read("shop", "99"), read("shop", "1000"), read("none", kept.ResourceVersion)} {
			if err := c.Remake(other); err != nil {
				t.Error(err)
			}
		}
		if now, _ := c.Get("shop"); now != object || told.Load() != before {
			t.Errorf("another version changed the cache: %+v", now)
		}
		if _, ok := c.Get("none"); ok {
			t.Error("an object that the cache has not is put into it")
		}
		if err := c.Remake(read("shop", kept.ResourceVersion)); err != nil {
			t.Error(err)
		}
		now, _ := c.Get("shop")
		if label := now.(*metav1.PartialObjectMetadata).Labels["made"]; label != "7" || told.Load() != before+1 {
			t.Errorf("made %q, told %d times", label, told.Load()-before)
		}
	})
}
