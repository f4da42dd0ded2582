package store_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// aged returns an object that was made some time ago.
func aged(o *unstructured.Unstructured, age time.Duration) *unstructured.Unstructured {
	o.SetCreationTimestamp(metav1.NewTime(time.Unix(1e9, 0).Add(-age)))
	return o
}

// spec decodes a spec.
func spec(more map[string]any) map[string]any {
	s := map[string]any{"inject": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}}
	for key, value := range more {
		s[key] = value
	}
	return s
}

// costly returns a spec of n expressions.
func costly(n int, more map[string]any) map[string]any {
	var variables []any
	for i := range n {
		variables = append(variables, map[string]any{"name": fmt.Sprint("v", i), "expression": fmt.Sprintf("1 + %d", i)})
	}
	s := spec(more)
	s["variables"] = variables
	return s
}

// inNamespaces returns the set of objects, whose templates of namespaces have a budget, with the reasons of all.
func inNamespaces(t *testing.T, budget int64, objects ...runtime.Object) (set *templates.Set, reasons map[string]string, counts map[string]int) {
	t.Helper()
	var mu sync.Mutex
	reasons = map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, objects...)
		s := store.New(store.Options{Client: c, Logger: slog.New(slog.DiscardHandler)})
		own := store.NewNamespaced(store.NamespacedOptions{Client: c, Budget: budget, Logger: slog.New(slog.DiscardHandler)})
		s.Attach(own)
		own.OnVerdicts(func(namespace string, verdicts []store.Verdict) {
			mu.Lock()
			defer mu.Unlock()
			for _, v := range verdicts {
				reasons[namespace+"/"+v.Object.Name] = v.Reason
			}
		})
		runtest.Start(t, s.Run)
		runtest.Start(t, own.Run)
		wait(10 * time.Second)
		if err := own.Ready(); err != nil {
			t.Errorf("Ready() = %v", err)
		}
		set, counts = s.Snapshot(), own.Reasons()
	})
	return set, reasons, counts
}

func TestOfANamespaceTheOldestTwentyTemplatesCount(t *testing.T) {
	var objects []runtime.Object
	for i := range 22 { // t00 and t21 are the youngest
		objects = append(objects, aged(object("shop", fmt.Sprintf("t%02d", i), "x"), time.Duration(i%21)*time.Minute))
	}
	set, reasons, counts := inNamespaces(t, 1<<30, append(objects, object("pay", "other", "x"))...)
	for i := range 22 {
		name, want := fmt.Sprintf("t%02d", i), store.Compiled
		if i == 0 || i == 21 {
			want = store.TooMany
		}
		_, there := set.In("shop").Get(name)
		if got := reasons["shop/"+name]; got != want || there != (want == store.Compiled) {
			t.Errorf("%s is %s and in force %v, want %s", name, got, there, want)
		}
		if _, elsewhere := set.In("pay").Get(name); elsewhere {
			t.Errorf("%s reached another namespace", name)
		}
	}
	if len(set.Entries()) != 0 {
		t.Error("a template of a namespace is in the set of the cluster")
	}
	if counts[store.TooMany] != 2 || counts[store.Compiled] != 21 {
		t.Errorf("the metric counts %v", counts)
	}
}

func TestATenantWithLargeTemplatesTakesNobodysPlace(t *testing.T) {
	wants := map[string]any{"injectByDefault": true, "onError": "Skip", "match": map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "web"}}}}
	huge := spec(wants)
	huge["inject"] = map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 1_400_000)}}}
	objects := []runtime.Object{
		withSpec("large", "huge", huge), object("large", "fits", "x"), withSpec("honest", "own", costly(5, nil)),
		object("", "taken", "x"), object("shadowed", "taken", "y"),
	}
	for i := range 5 {
		objects = append(objects, withSpec(fmt.Sprint("hostile-", i), "worst", costly(70, wants)))
	}
	set, reasons, _ := inNamespaces(t, 4<<20, objects...)
	for name, want := range map[string]string{
		"large/huge": store.TooLarge, "large/fits": store.Compiled, "honest/own": store.Compiled,
		"hostile-0/worst": store.Compiled, "hostile-4/worst": store.TooLarge, "shadowed/taken": store.Shadowed,
	} {
		if got := reasons[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := value(t, set.In("shadowed"), "taken"); got != "x" {
		t.Errorf("the template of the namespace counts, and the cluster has one of the name: %q", got)
	}
	// What is out of force still says which pods want it: they are refused, and do not go without it in silence.
	for namespace, name := range map[string]string{"large": "huge", "hostile-4": "worst"} {
		e, _ := set.In(namespace).Get(name)
		_, pod, ok := e.Match()
		if !ok || e.Template != nil || e.Err == nil || !pod.Matches(labels.Set{"app": "web"}) || pod.Matches(labels.Set{}) || !e.InjectByDefault() || e.Known().Spec().OnError != v1alpha1.ErrorSkip {
			t.Errorf("%s: the error does not tell which pods want it: %+v", namespace, e)
		}
	}
	if kept := templates.Demand([]byte(`{"match":"` + strings.Repeat("x", 8<<10) + `"}`)); kept != nil {
		t.Errorf("%d bytes of a template that is out of force stay in memory", len(kept))
	}
}

func TestATemplateOfANamespaceIsJudgedAnewWhenItsNameIsTakenOrFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, bad("shop", "own"))
		var mu sync.Mutex
		said := ""
		s, own, _ := c.running(t)
		own.OnVerdicts(func(_ string, verdicts []store.Verdict) {
			mu.Lock()
			defer mu.Unlock()
			said = verdicts[0].Reason
		})
		expect := func(want string) {
			t.Helper()
			wait(inForce)
			mu.Lock()
			defer mu.Unlock()
			if said != want {
				t.Errorf("the template is %s, want %s", said, want)
			}
		}
		c.update(t, bad("shop", "own"))
		expect(store.CompileFailed)
		c.create(t, object("", "own", "x"))
		expect(store.Shadowed)
		if got := value(t, s.Snapshot().In("shop"), "own"); got != "x" {
			t.Errorf("in force is %q", got)
		}
		c.deleteAll(t, "", "own")
		expect(store.CompileFailed)
	})
}

// Who may edit a namespace may write its templates again and again.
func TestATenantThatWritesAllTheTimeIsCompiledSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, object("shop", "own", "0"), object("pay", "own", "0"))
		s, own, _ := c.running(t)
		wait(inForce)
		changes := 0
		var mu sync.Mutex
		own.OnChange(func(namespace string) {
			mu.Lock()
			defer mu.Unlock()
			if namespace == "shop" {
				changes++
			}
		})
		for i := range 600 {
			c.update(t, object("shop", "own", fmt.Sprint(i)))
			wait(100 * time.Millisecond)
		}
		c.update(t, object("pay", "own", "new"))
		wait(inForce)
		mu.Lock()
		defer mu.Unlock()
		if changes > 45 || value(t, s.Snapshot().In("pay"), "own") != "new" {
			t.Errorf("in a minute of writes %d versions came into force, and another namespace has %q", changes, value(t, s.Snapshot().In("pay"), "own"))
		}
	})
}
