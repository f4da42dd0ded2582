package namespaces

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/follow/followtest"
	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates"
)

func newInformer(client metadata.Interface) *Informer {
	return New(Options{Client: client, Logger: slog.New(slog.DiscardHandler)})
}

// following returns an informer with a filled cache, and a watch that stands.
func following(t *testing.T, s *followtest.Server) *Informer {
	t.Helper()
	i := newInformer(s)
	runtest.Start(t, func(ctx context.Context) error { i.Run(ctx); return nil })
	runtest.Wait(t, "a watch stands", func() bool { return i.Ready() == nil && s.Standing.Load() > 0 })
	return i
}

// always agrees with any metadata.
func always(templates.Namespace) bool { return true }

func injection(value string) map[string]string {
	return map[string]string{"pillion.dev/injection": value}
}

// enforced agrees with metadata that have the label enforced.
func enforced(ns templates.Namespace) bool { return ns.Labels["pillion.dev/injection"] == "enforced" }

func TestAChangedNamespaceReachesTheCacheAndAnUnseenNamespaceIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", nil, map[string]string{"pillion.dev/inject": "a"})
		i := newInformer(s)
		if ns, err := i.Get(t.Context(), "shop", always); err != nil || ns.Name != "shop" || ns.Annotations["pillion.dev/inject"] != "a" {
			t.Fatalf("%+v, %v", ns, err)
		}
		if err := i.Ready(); err == nil {
			t.Error("ready before the namespaces have been listed")
		}
		if _, err := i.Get(t.Context(), "none", always); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "none") {
			t.Errorf("a namespace that does not exist: %v", err)
		}
		var changed atomic.Value
		i.OnChange(func(name string) { changed.Store(name) })
		runtest.Start(t, func(ctx context.Context) error { i.Run(ctx); return nil })
		runtest.Wait(t, "ready", func() bool { return i.Ready() == nil && s.Standing.Load() > 0 })
		reads := s.Gets.Load()
		s.Put("bank", nil, map[string]string{"pillion.dev/inject": "b"})
		runtest.Wait(t, "the change", func() bool { return changed.Load() == "bank" })
		if ns, err := i.Get(t.Context(), "bank", always); err != nil || ns.Annotations["pillion.dev/inject"] != "b" || s.Gets.Load() != reads {
			t.Errorf("%+v, %v, after %d live reads", ns, err, s.Gets.Load()-reads)
		}
	})
}

func TestTheCacheHasNoManagedFieldsAndNoLastAppliedConfiguration(t *testing.T) {
	of := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", UID: "u", ResourceVersion: "7", Labels: map[string]string{"team": "web", "pillion.dev/injection": "disabled"},
		Annotations:   map[string]string{"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:pillion.dev/injection":{}}}}`)}},
	}}
	n := newNamespace(of)
	if n.ManagedFields != nil || !maps.Equal(n.Annotations, map[string]string{"a": "b"}) || !maps.Equal(n.Labels, of.Labels) || n.UID != "u" || n.ResourceVersion != "7" {
		t.Errorf("%+v", n)
	}
	if !slices.Equal(n.byHand, []string{"pillion.dev/injection"}) || n.stub {
		t.Errorf("by hand %v, stub %t", n.byHand, n.stub)
	}
	if len(of.Annotations) != 2 {
		t.Error("the object of the API server was changed")
	}
}

// large returns a label and an annotation that make a namespace too large for the cache.
func large() (labels, annotations map[string]string) {
	return map[string]string{"team": "web", "pillion.dev/required": "true"}, map[string]string{"pillion.dev/inject": "a", "pad": strings.Repeat("x", maxBytes)}
}

// cached returns a namespace of the informer's cache.
func cached(i *Informer, name string) (templates.Namespace, bool) {
	for ns := range i.All() {
		if ns.Name == name {
			return ns, true
		}
	}
	return templates.Namespace{}, false
}

func TestALargeNamespaceIsAStubThatIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", nil, nil)
		labels, annotations := large()
		s.Put("shop", labels, annotations)
		i := following(t, s)
		if ns, ok := cached(i, "shop"); !ok || !maps.Equal(ns.Labels, map[string]string{"pillion.dev/required": "true"}) || !maps.Equal(ns.Annotations, map[string]string{"pillion.dev/inject": "a"}) {
			t.Errorf("the stub is %+v", ns)
		}
		for ns := range i.AllWithOwners() {
			if !ns.Stub {
				t.Errorf("%+v is no stub", ns)
			}
		}
		if ns, err := i.Get(t.Context(), "shop", always); err != nil || ns.Labels["team"] != "web" || len(ns.Annotations["pad"]) != maxBytes || s.Gets.Load() != 1 {
			t.Errorf("%d labels, %v after %d reads", len(ns.Labels), err, s.Gets.Load())
		}
		if ns, err := i.GetWithOwners(t.Context(), "shop"); err != nil || ns.Stub || ns.Labels["team"] != "web" || s.Gets.Load() != 2 {
			t.Errorf("labelled: %d labels, %v after %d reads", len(ns.Labels), err, s.Gets.Load())
		}
		s.Away.Store(true)
		if ns, err := i.Get(t.Context(), "shop", always); err == nil || ns.Name != "" {
			t.Errorf("a stub answered: %+v, %v", ns, err)
		}
		s.Away.Store(false)
		s.Put("shop", map[string]string{"team": "web"}, nil)
		runtest.Wait(t, "it is small again", func() bool { ns, _ := cached(i, "shop"); return ns.Labels["team"] == "web" })
	})
}

func TestANamespaceThatTheCallerKnowsBetterIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("enabled"), nil)
		i := following(t, s)
		s.Deafen()
		s.Put("shop", injection("enforced"), map[string]string{"pillion.dev/inject": "a"})
		if ns, err := i.Get(t.Context(), "shop", always); err != nil || enforced(ns) {
			t.Fatalf("the cache has: %+v, %v", ns, err)
		}
		if ns, err := i.Get(t.Context(), "shop", enforced); err != nil || !enforced(ns) || ns.Annotations["pillion.dev/inject"] != "a" {
			t.Errorf("read live: %+v, %v", ns, err)
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
				var all sync.WaitGroup
				var wrong atomic.Int64
				for range 1000 {
					all.Go(func() {
						ns, err := i.Get(t.Context(), "shop", enforced)
						if err != nil || ns.Labels["pillion.dev/injection"] != now {
							wrong.Add(1)
						}
					})
				}
				all.Wait()
				if s.Gets.Load() > 2 || wrong.Load() > 0 {
					t.Errorf("%d reads, want 2 at most; %d of 1000 got no answer, or an old one", s.Gets.Load(), wrong.Load())
				}
			})
		})
	}
}

// A read that began before the caller asked may be older than what the caller knows.
func TestAReadThatBeganBeforeIsNotTakenForAnAnswerThatDisagrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("old"), nil)
		i := newInformer(s)
		s.Slow.Store(int64(20 * time.Millisecond))
		for n := range 20 {
			go func() { _, _ = i.Get(context.Background(), "shop", always) }()
			time.Sleep(time.Millisecond)
			want := fmt.Sprint("value-", n)
			s.Put("shop", injection(want), nil)
			ns, err := i.Get(t.Context(), "shop", func(ns templates.Namespace) bool { return ns.Labels["pillion.dev/injection"] == want })
			if err != nil || ns.Labels["pillion.dev/injection"] != want {
				t.Fatalf("%+v, %v, want %s", ns, err, want)
			}
		}
	})
}

func TestWhereNothingCanBeReadTheCacheIsReturnedBesideTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", injection("enabled"), nil)
		i := following(t, s)
		s.Away.Store(true)
		if ns, err := i.Get(t.Context(), "shop", enforced); err == nil || apierrors.IsNotFound(err) || ns.Labels["pillion.dev/injection"] != "enabled" {
			t.Errorf("for a caller who knows better: %+v, %v", ns, err)
		}
		runtest.Wait(t, "the state says so", func() bool { return i.State().Err != nil })
		if ns, err := i.Get(t.Context(), "shop", always); err != nil || ns.Labels["pillion.dev/injection"] != "enabled" {
			t.Errorf("for others: %+v, %v", ns, err)
		}
		if err := i.Ready(); err != nil {
			t.Errorf("Ready() = %v: all replicas would leave together", err)
		}
		s.Away.Store(false)
		runtest.Wait(t, "it is over", func() bool { return i.State().Err == nil })
	})
}

// Everybody who reaches the port can name namespaces that do not exist.
func TestNamespacesThatDoNotExistCostFewReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		i := newInformer(s)
		const names = 2000
		for n := range names { // within two seconds
			time.Sleep(time.Millisecond)
			if _, err := i.Get(t.Context(), fmt.Sprint("none-", n), always); !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
				t.Fatalf("%v, want NotFound or TooManyRequests", err)
			}
		}
		if n := s.Gets.Load(); n < readsAtOnce || n > readsAtOnce+readsPerSecond*names/1000 {
			t.Errorf("%d reads for %d names", n, names)
		}
	})
}

func TestReadsOfStubsTakeNothingFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		for n := range 50 {
			labels, annotations := large()
			s.Put(fmt.Sprint("large-", n), labels, annotations)
		}
		i := following(t, s)
		s.Put("shop", injection("enabled"), nil)
		s.Slow.Store(int64(100 * time.Millisecond))
		var all sync.WaitGroup
		var failed atomic.Int64
		for n := range 50 {
			all.Go(func() {
				if _, err := i.Get(t.Context(), fmt.Sprint("large-", n), always); err != nil {
					failed.Add(1)
				}
			})
		}
		time.Sleep(time.Millisecond)
		began := time.Now()
		if _, err := i.Get(t.Context(), "shop", enforced); err != nil || time.Since(began) > 150*time.Millisecond {
			t.Errorf("another namespace: %v after %s", err, time.Since(began))
		}
		all.Wait()
		if failed.Load() > 0 {
			t.Errorf("%d reads of stubs did not wait for their turn", failed.Load())
		}
	})
}
