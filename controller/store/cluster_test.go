package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crd         = "sidecartemplates.pillion.dev"
)

// definition returns the CRD as it is made now.
func definition() *unstructured.Unstructured {
	return now(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": crd},
	}})
}

// now has an object made now.
func now(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetCreationTimestamp(metav1.Now())
	return o
}

var gvr = schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}

// cluster is an API server that can be told to fail.
type cluster struct {
	*fake.FakeDynamicClient
	// listError and watchError are what those calls give, if not nil.
	listError, watchError atomic.Pointer[error]
	calls                 atomic.Int64
	// open is the watch that was begun last.
	open atomic.Pointer[watch.FakeWatcher]
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	c := &cluster{FakeDynamicClient: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{gvr: "SidecarTemplateList"}, append(objects, definition())...)}
	c.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.calls.Add(1)
		if err := c.listError.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	})
	c.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		if err := c.watchError.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	})
	return c
}

// keepWatches has watches say nothing, and keeps the last one for the test to stop.
func (c *cluster) keepWatches() {
	c.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		if err := c.watchError.Load(); err != nil {
			return true, nil, *err
		}
		w := watch.NewFake()
		c.open.Store(w)
		return true, w, nil
	})
}

func (c *cluster) fail(verb string, err error) {
	p := &c.listError
	if verb == "watch" {
		p = &c.watchError
	}
	if err == nil {
		p.Store(nil)
		return
	}
	p.Store(&err)
}

func object(name, value string) *unstructured.Unstructured {
	return now(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"inject": map[string]any{"metadata": map[string]any{"labels": map[string]any{"value": value}}}},
		"status":   map[string]any{"hash": "old"},
	}})
}

func (c *cluster) create(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Resource(gvr).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) update(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Resource(gvr).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

var (
	notFound  = apierrors.NewNotFound(gvr.GroupResource(), "")
	forbidden = apierrors.NewForbidden(gvr.GroupResource(), "", errors.New("not for you"))
)

func TestClusterObjectsAreInForceWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"))
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		if err := l.Ready(); err != nil {
			t.Fatalf("Ready() = %v", err)
		}
		c.create(t, object("two", "2"))
		c.update(t, object("one", "new"))
		wait(inForce)
		if got := value(t, l.Snapshot(), "one") + value(t, l.Snapshot(), "two"); got != "new2" {
			t.Errorf("a second later the templates give %q", got)
		}
		if err := c.Resource(gvr).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wait(inForce)
		if diff := cmp.Diff([]string{"two"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries after a deletion (-want +got):\n%s", diff)
		}
	})
}

func TestStatusOfAnObjectIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"))
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		before := l.Snapshot()
		o := object("one", "1")
		o.Object["status"] = map[string]any{"hash": "new"}
		c.update(t, o)
		wait(inForce)
		if l.Snapshot() != before {
			t.Error("there is a new set after a change of status")
		}
	})
}

func TestMissingCRDIsReadyWithANoteAndFoundWhenItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.fail("list", notFound)
		l, log := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v; a missing CRD must not hold it back", err)
		}
		if got := l.Sources()[0].Note; got != "the CRD sidecartemplates.pillion.dev is not installed" {
			t.Errorf("the note is %q", got)
		}
		wait(time.Hour)
		if got := log.Count("is not installed"); got != 1 {
			t.Errorf("it was logged %d times in an hour; want once", got)
		}
		if got := c.calls.Load(); got > 2*3600 {
			t.Errorf("%d calls in an hour", got)
		}
		c.fail("list", nil)
		c.create(t, object("one", "1"))
		wait(3 * time.Second)
		if got := value(t, l.Snapshot(), "one"); got != "1" {
			t.Errorf("after the CRD came the set gives %q", got)
		}
		if got := l.Sources()[0].Note; got != "" {
			t.Errorf("after the CRD came the note is %q", got)
		}
	})
}

func TestMissingPermissionIsNamedAndHoldsReadinessBack(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, object("one", "1"))
				c.fail(verb, forbidden)
				l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
				wait(10 * time.Second)
				want := "missing permission: the verb " + verb + " on the resource sidecartemplates of the API group pillion.dev"
				// A list that succeeds says nothing of the watch.
				for range 1500 {
					if err := l.Sources()[0].Err; err == nil || !strings.Contains(err.Error(), want) {
						t.Fatalf("the error is %v; want %q", err, want)
					}
					wait(10 * time.Millisecond)
				}
				if got := names(l.Snapshot()); verb == "watch" && len(got) != 1 {
					t.Errorf("what is listed is in force: %v", got)
				}
				if err := l.Ready(); verb == "list" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("Ready() = %v; want %q", err, want)
				}
				c.fail(verb, nil)
				wait(time.Minute)
				if err := l.Ready(); err != nil {
					t.Errorf("Ready() = %v after the permission was given", err)
				}
				if got := value(t, l.Snapshot(), "one"); got != "1" {
					t.Errorf("after the permission was given the set gives %q", got)
				}
				if err := l.Sources()[0].Err; err != nil {
					t.Errorf("after the permission was given the error is %v", err)
				}
			})
		})
	}
}

func TestUnreachableAPIServerKeepsWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"))
		c.keepWatches()
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		away := errors.New("dial tcp: connection refused")
		c.fail("list", away)
		c.fail("watch", away)
		c.open.Load().Stop()
		wait(time.Minute)
		if got := value(t, l.Snapshot(), "one"); got != "1" {
			t.Errorf("without an API server the set gives %q", got)
		}
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v; replicas must not leave together", err)
		}
		if err := l.Sources()[0].Err; err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("the source's error is %v", err)
		}
		c.fail("list", nil)
		c.fail("watch", nil)
		c.update(t, object("one", "2"))
		wait(time.Minute)
		if got := value(t, l.Snapshot(), "one"); got != "2" || l.Sources()[0].Err != nil {
			t.Errorf("with the API server back the set gives %q, the source's error is %v", got, l.Sources()[0].Err)
		}
	})
}

// deleteAll deletes the objects one by one, as the API server does before a CRD goes.
func (c *cluster) deleteAll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.Resource(gvr).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cluster) setDefinition(t *testing.T, change func(*unstructured.Unstructured)) {
	t.Helper()
	o, err := c.Resource(definitions).Get(t.Context(), crd, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(o)
	if err := c.Tracker().Update(definitions, o, ""); err != nil {
		t.Fatal(err)
	}
}

func TestADeletedCRDTakesNoTemplateOutOfForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"), object("two", "2"))
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		c.setDefinition(t, func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()}) })
		c.deleteAll(t, "one", "two")
		wait(inForce)
		kept := func(when string) {
			t.Helper()
			if got := value(t, l.Snapshot(), "one") + value(t, l.Snapshot(), "two"); got != "12" {
				t.Errorf("%s the templates give %q", when, got)
			}
			if text := errText(l.Snapshot(), "one"); !strings.Contains(text, "the CRD was deleted, and SidecarTemplate one with it") {
				t.Errorf("%s the entry says %q", when, text)
			}
			if err := l.Ready(); err != nil {
				t.Errorf("%s Ready() = %v", when, err)
			}
		}
		kept("while the CRD goes")
		c.fail("list", notFound)
		c.fail("watch", notFound)
		if err := c.Tracker().Delete(definitions, "", crd); err != nil {
			t.Fatal(err)
		}
		wait(time.Hour)
		kept("an hour later")
		if err := c.Tracker().Add(definition()); err != nil {
			t.Fatal(err)
		}
		c.fail("list", nil)
		c.fail("watch", nil)
		wait(time.Minute)
		kept("with the CRD back, and no object")
		c.create(t, object("one", "new"))
		wait(inForce)
		if got := value(t, l.Snapshot(), "one"); got != "new" || errText(l.Snapshot(), "one") != "" || l.Sources()[0].Err != nil {
			t.Errorf("with one object back the set gives %q, the entry says %q, the source %v", got, errText(l.Snapshot(), "one"), l.Sources()[0].Err)
		}
		c.create(t, object("two", "2"))
		wait(inForce)
		c.deleteAll(t, "one", "two")
		wait(inForce)
		if got := names(l.Snapshot()); len(got) != 0 {
			t.Errorf("after both were deleted there are %v", got)
		}
	})
}

// The watch can miss that the CRD went: the objects are then gone in the next list.
func TestACRDThatWasReplacedWhileNobodyWatchedTakesNoTemplateOutOfForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"), object("two", "2"))
		c.keepWatches()
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		c.fail("list", notFound)
		c.fail("watch", notFound)
		c.open.Load().Stop()
		wait(time.Minute)
		if err := l.Sources()[0].Err; err == nil || !strings.Contains(err.Error(), "the CRD sidecartemplates.pillion.dev is gone") {
			t.Errorf("the source's error is %v", err)
		}
		c.deleteAll(t, "one", "two")
		c.setDefinition(t, func(o *unstructured.Unstructured) { now(o) })
		c.create(t, object("two", "new"))
		c.fail("list", nil)
		c.fail("watch", nil)
		wait(time.Minute)
		if got := value(t, l.Snapshot(), "one") + value(t, l.Snapshot(), "two"); got != "1new" {
			t.Errorf("the templates give %q", got)
		}
	})
}

// A CRD can be replaced within a moment, and nothing tells: lists and watches work as before.
func TestATemplateOfAReplacedCRDThatIsDeletedIsGone(t *testing.T) {
	for what, before := range map[string][]string{
		"where there were none":               nil,
		"which was applied again":             {"one"},
		"which was applied again with others": {"one", "two"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				for _, name := range before {
					c.create(t, object(name, "1"))
				}
				l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
				wait(inForce)
				c.setDefinition(t, func(o *unstructured.Unstructured) { now(o) })
				if len(before) > 0 {
					c.update(t, object("one", "1"))
				} else {
					c.create(t, object("one", "1"))
				}
				wait(inForce)
				c.deleteAll(t, "one")
				wait(inForce)
				if _, there := l.Snapshot().Get("one"); there {
					t.Errorf("the template that was deleted is in force: %s", errText(l.Snapshot(), "one"))
				}
			})
		})
	}
}

func TestATemplateThatWasDeletedWhileNobodyWatchedIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"), object("two", "2"))
		c.keepWatches()
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		// For a moment an API server that has just started knows no CRD.
		c.fail("list", notFound)
		c.fail("watch", notFound)
		c.open.Load().Stop()
		c.deleteAll(t, "one")
		wait(3 * time.Second)
		c.fail("list", nil)
		c.fail("watch", nil)
		wait(time.Minute)
		if got := names(l.Snapshot()); len(got) != 1 || got[0] != "two" {
			t.Errorf("there are %v, want two", got)
		}
	})
}

func TestWithoutTheRightToReadTheCRDADeletedTemplateIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"))
		c.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
		l, _ := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		c.deleteAll(t, "one")
		wait(inForce)
		if got := names(l.Snapshot()); len(got) != 0 || !strings.Contains(l.Sources()[0].Note, "missing permission: the verb get on the CRD") {
			t.Errorf("there are %v, the note is %q", got, l.Sources()[0].Note)
		}
	})
}

func TestACRDThatCannotBeReadIsAskedForLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("one", "1"), object("two", "2"))
		var broken atomic.Bool
		var asked atomic.Int64
		c.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked.Add(1)
			return broken.Load(), nil, apierrors.NewInternalError(errors.New("no storage"))
		})
		l, log := running(t, store.Cluster(c, "pillion.dev", nil))
		wait(inForce)
		broken.Store(true)
		asked.Store(0)
		c.deleteAll(t, "one")
		wait(time.Second)
		if n := asked.Load(); n < 2 {
			t.Errorf("it was asked for %d times in the first second", n)
		}
		wait(10 * time.Minute)
		if n := asked.Load(); n > 100 {
			t.Errorf("it was asked for %d times in ten minutes", n)
		}
		// Changes of other templates are no reason to ask more.
		asked.Store(0)
		for i := range 600 {
			c.update(t, object("two", fmt.Sprint(i)))
			wait(100 * time.Millisecond)
		}
		if n := asked.Load(); n > 10 {
			t.Errorf("it was asked for %d times in a minute in which another template changed", n)
		}
		if n := log.Count("reading the CRD of templates that are gone"); n != 1 || len(l.Snapshot().All()) != 2 {
			t.Errorf("it was told %d times, and %v are in force\n%s", n, names(l.Snapshot()), log)
		}
		broken.Store(false)
		wait(20 * time.Second)
		if got := names(l.Snapshot()); len(got) != 1 || value(t, l.Snapshot(), "two") != "599" {
			t.Errorf("in the end there are %v", got)
		}
	})
}

// mirror returns an object that is a mirror, with a spec that would be a template.
func mirror(name, value string) *unstructured.Unstructured {
	o := object(name, value)
	o.SetLabels(map[string]string{"pillion.dev/mirror": "true"})
	return o
}

func TestAMirrorIsNoTemplateWhateverItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, mirror("shown", "1"), object("one", "1"))
		library := newScripted("files")
		l, _ := running(t, library, store.Cluster(c, "pillion.dev", nil))
		library.has("taken.yaml", manifest("taken", "file"))
		var verdicts []store.Verdict
		l.OnVerdicts(func(v []store.Verdict) { verdicts = v })
		c.create(t, mirror("taken", "mirror"))
		c.update(t, mirror("shown", "2"))
		wait(inForce)
		if got := names(l.Snapshot()); !slices.Equal(got, []string{"one", "taken"}) || value(t, l.Snapshot(), "taken") != "file" || errText(l.Snapshot(), "taken") != "" {
			t.Errorf("in force are %v, and the file's template has the error %q", got, errText(l.Snapshot(), "taken"))
		}
		for _, v := range verdicts {
			if v.Object.Name != "one" {
				t.Errorf("there is a verdict on %s", v.Object.Name)
			}
		}
		// Somebody takes the label off: a template like any other, and a name that is taken.
		c.update(t, object("shown", "3"))
		c.update(t, object("taken", "object"))
		wait(inForce)
		if got := value(t, l.Snapshot(), "shown") + value(t, l.Snapshot(), "taken"); got != "3file" || !strings.Contains(errText(l.Snapshot(), "taken"), "the name taken is taken by taken.yaml") {
			t.Errorf("without the label the templates give %q, with the error %q", got, errText(l.Snapshot(), "taken"))
		}
		if i := slices.IndexFunc(verdicts, func(v store.Verdict) bool { return v.Object.Name == "taken" }); i < 0 || verdicts[i].Reason != store.NameTaken {
			t.Errorf("the verdicts are %+v", verdicts)
		}
		c.update(t, mirror("shown", "4"))
		c.update(t, mirror("taken", "4"))
		wait(inForce)
		if got := names(l.Snapshot()); !slices.Equal(got, []string{"one", "taken"}) {
			t.Errorf("with the label again there are %v", got)
		}
		// With the CRD go mirrors, too. They were never in force.
		c.setDefinition(t, func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()}) })
		c.deleteAll(t, "one", "shown", "taken")
		wait(inForce)
		if got := names(l.Snapshot()); !slices.Equal(got, []string{"one", "taken"}) || value(t, l.Snapshot(), "taken") != "file" {
			t.Errorf("when the CRD goes there are %v", got)
		}
	})
}

func TestTemplatesOfFilesAreMirroredInTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
		policy := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
			"metadata": map[string]any{"name": "policy", "uid": "7", "annotations": map[string]any{"pillion.dev/mirror-revision": "now"}},
		}}
		c := newCluster(t)
		if err := c.Tracker().Create(policies, policy, ""); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("several.yaml", manifest("one", "1")+"---\n"+badManifest("two"))
		write("named.yaml", manifest("named", "1"))
		library, err := store.Library(nil, "fluent-bit")
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{"defaults": map[string]any{"fluent-bit": map[string]any{"logLevel": "debug", "output": map[string]any{"host": "h"}}}}
		log := slog.New(slog.DiscardHandler)
		l := store.New(store.Options{
			Sources: []store.Source{store.BuiltIn("a part of the program", []byte(manifest("proof", "1"))), library, store.Directory(dir), store.Cluster(c, "pillion.dev", log)},
			Compile: templates.Options{Values: values}, Logger: log, Named: func(name string) bool { return name == "named" },
		})
		var mu sync.Mutex
		var verdicts []store.Verdict
		w := store.NewMirrorWriter(store.MirrorOptions{
			Client: c, Prefix: "pillion.dev", Values: values, Policy: "policy", Revision: "now", Ready: l.Ready, Logger: log,
			Verdicts: func(v []store.Verdict) { mu.Lock(); defer mu.Unlock(); verdicts = v },
		})
		l.OnMirrors(w.Observe)
		start(t, l)
		runtest.Start(t, w.Run)
		said := func() string {
			mu.Lock()
			defer mu.Unlock()
			var all []string
			for _, v := range verdicts {
				all = append(all, v.Object.Name+" "+v.From+" "+v.Reason)
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		wait(10 * time.Second)
		if got, want := said(), "fluent-bit library Compiled, named values Compiled, one values Compiled, two values CompileFailed"; got != want {
			t.Errorf("the verdicts are %s, want %s", got, want)
		}
		shown, err := c.Resource(gvr).Get(t.Context(), "fluent-bit", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defaults := map[string]string{}
		parameters, _, _ := unstructured.NestedSlice(shown.Object, "spec", "parameters")
		for _, p := range parameters {
			defaults[p.(map[string]any)["name"].(string)] = fmt.Sprint(p.(map[string]any)["default"])
		}
		if defaults["logLevel"] != "debug" || !strings.Contains(defaults["output"], "host:h") {
			t.Errorf("the defaults are %v", defaults)
		}
		if bad, err := c.Resource(gvr).Get(t.Context(), "two", metav1.GetOptions{}); err != nil || !strings.Contains(fmt.Sprint(bad.Object["spec"]), "lables") {
			t.Errorf("of the manifest with a mistake there is %v, %v", bad, err)
		}
		if e, ok := l.Snapshot().Get("fluent-bit"); !ok || e.Source != "library/fluent-bit" || e.Err != nil {
			t.Errorf("in force is %+v", e)
		}
		// Files go. What namespaces name stays in force, and is shown so.
		for _, name := range []string{"several.yaml", "named.yaml"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		wait(10 * time.Second)
		if got, want := said(), "fluent-bit library Compiled, named values SourceGone"; got != want {
			t.Errorf("when the files are gone the verdicts are %s, want %s", got, want)
		}
		list, err := c.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Errorf("there are %d objects, %v", len(list.Items), err)
		}
		write("named.yaml", manifest("named", "2"))
		wait(10 * time.Second)
		if got, want := said(), "fluent-bit library Compiled, named values Compiled"; got != want {
			t.Errorf("with the file back the verdicts are %s, want %s", got, want)
		}
	})
}
