package namespaces

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/follow/followtest"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// requiredBy returns a set with a template that is required where a namespace has a label.
func requiredBy(t *testing.T, keys ...string) *templates.Set {
	t.Helper()
	var manifests []string
	for _, key := range keys {
		manifest := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: %[1]s}\nspec: {required: true, match: {namespaceSelector: {matchExpressions: [{key: %[1]s, operator: Exists}]}}, inject: {metadata: {labels: {a: b}}}}", key)
		manifests = append(manifests, manifest)
	}
	return templatestest.Set(t, manifests...)
}

// large returns labels that make a namespace a large one.
func large(more ...string) map[string]string {
	labels := map[string]string{}
	for n := range 100 {
		labels[fmt.Sprint("pad-", n)] = strings.Repeat("x", 60)
	}
	for _, key := range more {
		labels[key] = "x"
	}
	return labels
}

// changing returns an informer that follows the server, and the function that puts another set in
// force.
func changing(t *testing.T, s *followtest.Server, set *templates.Set) (*Informer, func(*templates.Set)) {
	t.Helper()
	var now atomic.Pointer[templates.Set]
	now.Store(set)
	i := New(informerOptions(s, func() *templates.NamespaceReads { return now.Load().NamespaceReads() }))
	runtest.Start(t, func(ctx context.Context) error { i.Run(ctx); return nil })
	waitFor(t, "ready, and a watch that stands", func() bool { return i.Ready() == nil && s.Standing.Load() > 0 })
	return i, func(set *templates.Set) { now.Store(set); i.TemplatesChanged() }
}

// A required template that selects by a key that was not kept never is one that does not match.
func TestALargeNamespaceIsReadAnewForTemplatesThatReadMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		s.Put("shop", large("team", "tier"), nil)
		s.Put("small", map[string]string{"tier": "x"}, nil)
		i, change := changing(t, s, requiredBy(t, "team"))
		before, after := requiredBy(t, "team"), requiredBy(t, "team", "tier")
		var told atomic.Int64
		i.OnChange(func(string) { told.Add(1) })
		in := func(name string) labels.Namespace {
			ns, ok := i.Labelled(name)
			if !ok {
				t.Fatalf("%s is not in the cache", name)
			}
			return ns
		}
		if ns := in("shop"); len(ns.Labels) != 1 || !labels.Knows(before, ns) || labels.Knows(after, ns) {
			t.Fatalf("the labels %v are kept", ns.Labels)
		}
		if got := s.Gets.Load(); got != 0 {
			t.Fatalf("%d reads before the templates changed", got)
		}
		s.Slow.Store(int64(300 * time.Millisecond))
		change(after)
		// Until the namespace has been read anew, a pod's review reads it live.
		if labels.Knows(after, in("shop")) {
			t.Fatal("known at once")
		}
		ns, err := i.Get(t.Context(), "shop", after.NamespaceReads(), always)
		if err != nil || !after.RequiredIn(ns.Labels) || ns.Labels["tier"] != "x" {
			t.Fatalf("%v, %v", ns.Labels, err)
		}
		waitFor(t, "the namespace is known", func() bool { return labels.Knows(after, in("shop")) })
		synctest.Wait() // listeners hear of it once the cache has it
		if got := in("shop").Labels; !maps.Equal(got, map[string]string{"team": "x", "tier": "x"}) {
			t.Errorf("the labels %v are kept", got)
		}
		if told.Load() == 0 {
			t.Error("nobody was told that the namespace is another")
		}
		if !labels.Knows(after, in("small")) {
			t.Error("a small namespace is not known")
		}
		reads := s.Gets.Load()
		if _, err := i.Get(t.Context(), "shop", after.NamespaceReads(), always); err != nil || s.Gets.Load() != reads {
			t.Errorf("%v, and %d reads, want none more", err, s.Gets.Load()-reads)
		}
	})
}

// Namespaces that change while they are read anew end as they are, in whatever order the
// versions come.
func TestLargeNamespacesThatChangeMeanwhileEndAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		const count = 20
		for n := range count {
			s.Put(fmt.Sprint("shop-", n), large("k0"), nil)
		}
		i, change := changing(t, s, requiredBy(t, "k0"))
		var keys []string
		var writers sync.WaitGroup
		for n := range 5 {
			keys = append(keys, fmt.Sprint("k", n))
			change(requiredBy(t, keys...))
			for m := range count {
				writers.Go(func() { s.Put(fmt.Sprint("shop-", m), large(keys...), nil) })
			}
			writers.Wait()
			time.Sleep(20 * time.Millisecond)
		}
		set := requiredBy(t, keys...)
		waitFor(t, "all are known as they are", func() bool {
			done := 0
			for ns := range i.AllLabelled() {
				if labels.Knows(set, ns) && slices.Equal(slices.Sorted(maps.Keys(ns.Labels)), keys) {
					done++
				}
			}
			return done == count
		})
	})
}

func TestReadsOfLargeNamespacesTakeNothingFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := followtest.New()
		const count = 2 * largeBurst
		for n := range count { // a parameter that finds no room
			s.Put(fmt.Sprint("large-", n), nil, map[string]string{"t.pillion.dev/p": strings.Repeat("x", mostKept)})
		}
		i := following(t, s)
		s.Slow.Store(int64(50 * time.Millisecond))
		var all sync.WaitGroup
		began := time.Now()
		for n := range count {
			all.Go(func() {
				if ns, err := i.Get(t.Context(), fmt.Sprint("large-", n), noReads, always); err != nil || len(ns.Annotations) != 1 {
					t.Errorf("%d: %v, %d annotations", n, err, len(ns.Annotations))
				}
			})
		}
		waitFor(t, "large ones are being read", func() bool { return s.Gets.Load() >= largeReads })
		s.Deafen()
		s.Put("new", nil, nil)
		if _, err := i.Get(t.Context(), "new", noReads, always); err != nil {
			t.Errorf("a new namespace meanwhile: %v", err)
		}
		all.Wait()
		if took := time.Since(began); took < (count-largeBurst)*time.Second/largePerSecond {
			t.Errorf("%d large namespaces were read within %s", count, took)
		}
	})
}

// A pod whose review is not answered goes without its sidecar where API servers do not insist.
func TestALargeNamespaceThatWaitsForItsTurnInVainIsToBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInformer(newClient(t, namespace("shop", "a")))
		if !i.live.large.slots.TryAcquire(largeReads) { // reads that an API server does not answer
			t.Fatal("reads run")
		}
		began := time.Now()
		if _, err := i.live.get(t.Context(), "shop", true, always); !apierrors.IsTooManyRequests(err) || time.Since(began) != largeTimeout {
			t.Errorf("%v after %s, want TooManyRequests", err, time.Since(began))
		}
		go func() {
			time.Sleep(time.Second)
			i.live.large.slots.Release(1)
		}()
		if ns, err := i.live.get(t.Context(), "shop", true, always); err != nil || ns.Name != "shop" || !i.live.large.slots.TryAcquire(1) {
			t.Errorf("with a turn: %+v, %v, or its read goes on", ns, err)
		}
		time.Sleep(time.Minute)
	})
}
