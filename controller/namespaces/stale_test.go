package namespaces

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/follow/followtest"
	"github.com/pillion-dev/pillion/templates"
)

// following returns an informer that follows the server, by a watch that stands.
func following(t *testing.T, s *followtest.Server) *Informer {
	t.Helper()
	i, _ := changing(t, s, templates.NewSet(nil))
	return i
}

func injection(value string) map[string]string {
	return map[string]string{"pillion.dev/injection": value}
}

// enforced agrees with metadata that have the label enforced.
func enforced(ns templates.Namespace) bool { return ns.Labels["pillion.dev/injection"] == "enforced" }

func TestANamespaceThatTheCallerKnowsBetterIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("enabled"), nil)
		i := following(t, s)
		s.Deafen()
		s.Put("shop", injection("enforced"), map[string]string{"pillion.dev/inject": "a"})
		if ns, err := i.Get(t.Context(), "shop", noReads, always); err != nil || enforced(ns) {
			t.Fatalf("what the cache has: %+v, %v", ns, err)
		}
		ns, err := i.Get(t.Context(), "shop", noReads, enforced)
		if err != nil || !enforced(ns) || ns.Annotations["pillion.dev/inject"] != "a" {
			t.Errorf("what is there now: %+v, %v", ns, err)
		}
		// What the read has shown, the cache must get, or it is wrong, and read anew.
		waitFor(t, "the cache is current", func() bool {
			ns, err := i.Get(t.Context(), "shop", noReads, always)
			return err == nil && enforced(ns) && i.Ready() == nil
		})
		if n := i.State().Proofs; n != 1 {
			t.Errorf("%d proofs that the cache was wrong, want 1", n)
		}
	})
}

// A thousand pods of a namespace whose label is a moment old.
func TestAFloodOfReviewsOfOneStaleNamespaceIsNoFloodOfReads(t *testing.T) {
	for name, now := range map[string]string{"the read agrees": "enforced", "the read does not agree": "other"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := followtest.New()
				s.Put("shop", injection("enabled"), nil)
				i := following(t, s)
				s.Deafen()
				s.Put("shop", injection(now), nil)
				s.Slow.Store(int64(20 * time.Millisecond))
				began := time.Now()
				var all sync.WaitGroup
				var wrong atomic.Int64
				for range 1000 {
					all.Go(func() {
						ns, err := i.Get(t.Context(), "shop", noReads, enforced)
						if err != nil || ns.Labels["pillion.dev/injection"] != now {
							wrong.Add(1)
						}
					})
				}
				all.Wait()
				took := time.Since(began)
				// Two for those who come at once, and one for each pause that the rest take.
				if most := 3 + int64(took/readPause); s.Gets.Load() > most {
					t.Errorf("%d reads in %s, want at most %d", s.Gets.Load(), took, most)
				}
				if wrong.Load() > 0 {
					t.Errorf("%d of 1000 got no answer, or an old one", wrong.Load())
				}
			})
		})
	}
}

// A read that began before the caller asked may be older than what the caller knows.
func TestAReadThatBeganBeforeIsNotTakenForAnAnswerThatDisagrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("enabled"), nil)
		i := following(t, s)
		s.Deafen()
		for n := range 20 {
			want := fmt.Sprint("value-", n)
			s.Put("shop", injection(want), nil)
			ns, err := i.Get(t.Context(), "shop", noReads, func(ns templates.Namespace) bool { return ns.Labels["pillion.dev/injection"] == want })
			if err != nil || ns.Labels["pillion.dev/injection"] != want {
				t.Fatalf("%+v, %v, want %s", ns, err, want)
			}
		}
	})
}

func TestWhereNothingCanBeReadTheCacheAnswersThoseWhoKnowNoBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("enabled"), nil)
		i := following(t, s)
		s.Away.Store(true)
		if held, err := i.Get(t.Context(), "shop", noReads, enforced); err == nil || apierrors.IsNotFound(err) || held.Labels["pillion.dev/injection"] != "enabled" {
			t.Errorf("for a caller who knows better: %+v, %v, want what the cache holds beside an error", held, err)
		}
		waitFor(t, "the state says so", func() bool { return i.State().Unreadable != nil })
		if ns, err := i.Get(t.Context(), "shop", noReads, always); err != nil || ns.Labels["pillion.dev/injection"] != "enabled" {
			t.Errorf("for others: %+v, %v", ns, err)
		}
		if err := i.Ready(); err != nil {
			t.Errorf("Ready() = %v: replicas must not leave together", err)
		}
		s.Away.Store(false)
		waitFor(t, "it is over", func() bool { return i.State().Unreadable == nil && i.State().Name() == "current" })
	})
}

// While the cache is wrong, no namespace is answered from it.
func TestAWrongCacheAnswersNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("enabled"), nil)
		s.Put("bank", nil, nil)
		i := following(t, s)
		s.Deafen()
		version := s.Put("shop", injection("enforced"), nil)
		s.Put("bank", nil, map[string]string{"pillion.dev/inject": "b"})
		s.NoLists.Store(true)
		i.cache.Saw("shop", version)
		waitFor(t, "the cache is wrong", func() bool { return i.Ready() != nil })
		if ns, err := i.Get(t.Context(), "bank", noReads, always); err != nil || ns.Annotations["pillion.dev/inject"] != "b" {
			t.Errorf("of the wrong cache: %+v, %v", ns, err)
		}
		if err := i.Loaded(); err != nil {
			t.Errorf("Loaded() = %v: reviews are answered by live reads", err)
		}
		s.NoLists.Store(false)
		waitFor(t, "the cache is current", func() bool { return i.Ready() == nil })
		if ns, ok := i.Cached("bank"); !ok || ns.Annotations["pillion.dev/inject"] != "b" {
			t.Errorf("afterwards the cache has %+v", ns)
		}
	})
}
