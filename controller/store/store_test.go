package store_test

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

func TestObjectsAreInForceWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("", "one", "1"), object("shop", "own", "1"))
		s, own, _ := c.running(t)
		wait(inForce)
		if err := errors.Join(s.Ready(), own.Ready()); err != nil {
			t.Fatalf("Ready() = %v", err)
		}
		c.create(t, object("", "two", "2"))
		c.update(t, object("", "one", "new"))
		c.update(t, object("shop", "own", "new"))
		wait(inForce)
		in := s.Snapshot().In("shop")
		if got := value(t, in, "one") + value(t, in, "two") + value(t, in, "own"); got != "new2new" {
			t.Errorf("a second later the templates give %q", got)
		}
		c.deleteAll(t, "", "one")
		c.deleteAll(t, "shop", "own")
		wait(inForce)
		if diff := cmp.Diff([]string{"two"}, names(s.Snapshot().In("shop"))); diff != "" {
			t.Errorf("entries after a deletion (-want +got):\n%s", diff)
		}
	})
}

func TestAStatusIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := object("", "one", "1")
		c := newCluster(t, o)
		var changes, verdicts atomic.Int64
		s, _, _ := c.running(t)
		wait(inForce)
		s.OnChange(func(*templates.Set) { changes.Add(1) })
		s.OnVerdicts(func([]store.Verdict) { verdicts.Add(1) })
		with := o.DeepCopy()
		with.Object["status"] = map[string]any{"hash": "new"}
		c.update(t, with)
		wait(inForce)
		if changes.Load() != 0 || verdicts.Load() != 1 {
			t.Errorf("after a change of status: %d changes of the set, %d times verdicts", changes.Load(), verdicts.Load())
		}
	})
}

func TestABadSpecNeverReplacesAGoodOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("", "one", "good"), bad("", "new"), object("shop", "own", "good"))
		s, _, log := c.running(t)
		wait(inForce)
		before, _ := s.Snapshot().Get("one")
		c.update(t, bad("", "one"))
		c.update(t, bad("shop", "own"))
		wait(inForce)
		for name, set := range map[string]*templates.Set{"one": s.Snapshot(), "own": s.Snapshot().In("shop")} {
			if got := value(t, set, name); got != "good" || !strings.Contains(errText(set, name), "did you mean inject?") {
				t.Errorf("%s gives %q, its error is %q", name, got, errText(set, name))
			}
		}
		if got := value(t, s.Snapshot(), "new"); got != "-" || errText(s.Snapshot(), "new") == "" {
			t.Errorf("one that never was good gives %q, its error is %q", got, errText(s.Snapshot(), "new"))
		}
		c.update(t, object("", "one", "better"))
		wait(inForce)
		after, _ := s.Snapshot().Get("one")
		if got := value(t, s.Snapshot(), "one"); got != "better" || after.Err != nil || after.Previous != before.Template || after.Before(time.Now()) != before.Template {
			t.Errorf("a good spec gives %q: %+v", got, after)
		}
		if log.Count("level=ERROR") == 0 {
			t.Error("no error was logged")
		}
	})
}

func TestNotReadyUntilAllIsListedAndCompiled(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		says string
	}{
		"no CRD":        {notFound, "the CRD sidecartemplates.pillion.dev is not installed"},
		"no permission": {forbidden, "missing permission: the verbs list and watch on the resource sidecartemplates"},
		"away":          {errors.New("connection refused"), "connection refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := newCluster(t, object("", "one", "1"))
			api.fails(c.err)
			s, own, _ := api.running(t)
			wait(time.Minute)
			if err := s.Ready(); err == nil || !strings.Contains(err.Error(), c.says) || own.Ready() == nil {
				t.Errorf("%s: Ready() = %v, %v", what, err, own.Ready())
			}
			api.fails(nil)
			wait(3 * time.Second)
			if err := errors.Join(s.Ready(), own.Ready()); err != nil || value(t, s.Snapshot(), "one") != "1" {
				t.Errorf("%s: afterwards Ready() = %v", what, err)
			}
		})
	}
}

func TestAnAPIServerThatIsAwayTakesNothingOutOfForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("", "one", "1"))
		c.keepWatches()
		s, own, _ := c.running(t)
		wait(inForce)
		c.fails(errors.New("dial tcp: connection refused"))
		c.stopWatches()
		wait(time.Minute)
		if err := errors.Join(s.Ready(), own.Ready()); err != nil || value(t, s.Snapshot(), "one") != "1" {
			t.Errorf("without an API server Ready() = %v, and the set gives %q", err, value(t, s.Snapshot(), "one"))
		}
	})
}

func TestADeletedCRDTakesNoTemplateOutOfForce(t *testing.T) {
	for _, of := range []struct {
		namespace string
		resource  schema.GroupVersionResource
		source    string
	}{{"", store.Resource, "SidecarTemplate/one"}, {"shop", store.NamespacedResource, "NamespacedSidecarTemplate/shop/one"}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, object(of.namespace, "one", "1"), object(of.namespace, "two", "2"))
			s, own, _ := c.running(t)
			wait(inForce)
			c.setDefinition(t, of.resource, func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()}) })
			c.deleteAll(t, of.namespace, "one", "two")
			stays := func(when, want string) {
				t.Helper()
				wait(10 * time.Second)
				set := s.Snapshot().In(of.namespace)
				if got := value(t, set, "one") + value(t, set, "two"); got != want {
					t.Errorf("%s %s the templates give %q", of.resource.Resource, when, got)
				}
				if err := errors.Join(s.Ready(), own.Ready()); err != nil {
					t.Errorf("%s Ready() = %v", when, err)
				}
			}
			stays("while the CRD goes", "12")
			if text := errText(s.Snapshot().In(of.namespace), "one"); !strings.Contains(text, of.source+" was deleted together with its CRD") {
				t.Errorf("the entry says %q", text)
			}
			c.fails(notFound)
			if err := c.Tracker().Delete(definitions, "", of.resource.GroupResource().String()); err != nil {
				t.Fatal(err)
			}
			wait(time.Hour)
			stays("an hour later", "12")
			if err := c.Tracker().Add(definition(of.resource)); err != nil {
				t.Fatal(err)
			}
			c.fails(nil)
			wait(time.Minute)
			stays("with the CRD back, and no object", "12")
			c.create(t, object(of.namespace, "one", "new"))
			c.create(t, object(of.namespace, "two", "new"))
			stays("with the objects back", "newnew")
			if text := errText(s.Snapshot().In(of.namespace), "one"); text != "" {
				t.Errorf("with the objects back the entry says %q", text)
			}
			c.deleteAll(t, of.namespace, "one", "two")
			stays("after both were deleted", "--")
		})
	}
}

// The watch can miss that the CRD went: the objects are then gone in the next list.
func TestACRDThatWasReplacedWhileNobodyWatchedTakesNoTemplateOutOfForce(t *testing.T) {
	for what, replaced := range map[string]bool{"replaced": true, "the same": false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, object("", "one", "1"), object("", "two", "2"))
			c.keepWatches()
			s, _, _ := c.running(t)
			wait(inForce)
			c.fails(notFound)
			c.stopWatches()
			wait(time.Minute)
			c.deleteAll(t, "", "one")
			want := "-2"
			if replaced {
				c.setDefinition(t, store.Resource, func(o *unstructured.Unstructured) { now(o) })
				want = "12"
			}
			c.fails(nil)
			wait(time.Minute)
			if got := value(t, s.Snapshot(), "one") + value(t, s.Snapshot(), "two"); got != want {
				t.Errorf("%s: the templates give %q, want %q", what, got, want)
			}
		})
	}
}

func TestObjectsAreJudgedByWhatBecameOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		builtIn := templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: mine}, spec: {inject: {metadata: {labels: {value: built-in}}}}}")
		lost := withSpec("", "next", map[string]any{"canary": map[string]any{"of": "none"}, "inject": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}})
		c := newCluster(t, object("", "good", "1"), bad("", "bad"), object("", "mine", "theirs"), lost)
		verdicts := map[string]store.Verdict{}
		s := store.New(store.Options{Client: c, BuiltIn: builtIn, Logger: slog.New(slog.DiscardHandler)})
		s.OnVerdicts(func(all []store.Verdict) {
			for _, v := range all {
				verdicts[v.Object.Name] = v
			}
		})
		runtest.Start(t, s.Run)
		wait(inForce)
		want := map[string]string{"good": store.Compiled, "bad": store.CompileFailed, "mine": store.NameTaken, "next": store.CanaryUnusable}
		got := map[string]string{}
		for name, v := range verdicts {
			got[name] = v.Reason
		}
		if !maps.Equal(got, want) {
			t.Errorf("verdicts are %v, want %v", got, want)
		}
		if v := verdicts["good"]; len(v.Hash) != 16 || v.Template == nil {
			t.Errorf("good: %+v", v)
		}
		if v := verdicts["bad"]; v.Hash != "" || !strings.Contains(v.Message, "did you mean inject?") {
			t.Errorf("bad: %+v", v)
		}
		if value(t, s.Snapshot(), "mine") != "built-in" {
			t.Error("an object took the name of a built-in template")
		}
	})
}
