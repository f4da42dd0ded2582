package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// cluster is an API server that can be told to fail.
type cluster struct {
	*fake.FakeDynamicClient
	// listError and watchError are what those calls give, if not nil.
	listError, watchError atomic.Pointer[error]
	// open are the watches that were begun, where keepWatches was called.
	mu   sync.Mutex
	open []*watch.FakeWatcher
}

// definition returns a CRD as it is made now.
func definition(of schema.GroupVersionResource) *unstructured.Unstructured {
	return now(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": of.GroupResource().String()},
	}})
}

// now has an object made now.
func now(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetCreationTimestamp(metav1.Now())
	return o
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	c := &cluster{FakeDynamicClient: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		store.Resource: "SidecarTemplateList", store.NamespacedResource: "NamespacedSidecarTemplateList",
	}, append(objects, definition(store.Resource), definition(store.NamespacedResource))...)}
	c.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
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

// keepWatches has watches say nothing, until the test stops them.
func (c *cluster) keepWatches() {
	c.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		if err := c.watchError.Load(); err != nil {
			return true, nil, *err
		}
		w := watch.NewFake()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, w)
		return true, w, nil
	})
}

// stopWatches ends the watches.
func (c *cluster) stopWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.open {
		w.Stop()
	}
	c.open = nil
}

// fails has lists and watches fail, not for nil.
func (c *cluster) fails(err error) {
	if err == nil {
		c.listError.Store(nil)
		c.watchError.Store(nil)
		return
	}
	c.listError.Store(&err)
	c.watchError.Store(&err)
}

// generation tells versions of objects apart, as an API server does.
var generation atomic.Int64

// object returns a template that adds one label, in a namespace or, for "", of the cluster.
func object(namespace, name, value string) *unstructured.Unstructured {
	return withSpec(namespace, name, map[string]any{"inject": map[string]any{"metadata": map[string]any{"labels": map[string]any{"value": value}}}})
}

func withSpec(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	kind := "SidecarTemplate"
	if namespace != "" {
		kind = "NamespacedSidecarTemplate"
	}
	o := now(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "pillion.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name, "labels": map[string]any{"a": "b"}}, "spec": spec,
	}})
	o.SetNamespace(namespace)
	o.SetUID(types.UID(namespace + "/" + name))
	o.SetGeneration(generation.Add(1))
	return o
}

// bad returns a template that does not compile.
func bad(namespace, name string) *unstructured.Unstructured {
	return withSpec(namespace, name, map[string]any{"injec": map[string]any{}})
}

func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	if o.GetNamespace() != "" {
		return store.NamespacedResource
	}
	return store.Resource
}

func (c *cluster) create(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Resource(resourceOf(o)).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) update(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Resource(resourceOf(o)).Namespace(o.GetNamespace()).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// deleteAll deletes the objects one by one, as the API server does before a CRD goes.
func (c *cluster) deleteAll(t *testing.T, namespace string, names ...string) {
	t.Helper()
	of := store.Resource
	if namespace != "" {
		of = store.NamespacedResource
	}
	for _, name := range names {
		errtest.ExpectNone(t, c.Resource(of).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

func (c *cluster) setDefinition(t *testing.T, of schema.GroupVersionResource, change func(*unstructured.Unstructured)) {
	t.Helper()
	o, err := c.Resource(definitions).Get(t.Context(), of.GroupResource().String(), metav1.GetOptions{})
	errtest.ExpectNone(t, err)
	change(o)
	errtest.ExpectNone(t, c.Tracker().Update(definitions, o, ""))
}

var (
	notFound  = apierrors.NewNotFound(store.Resource.GroupResource(), "")
	forbidden = apierrors.NewForbidden(store.Resource.GroupResource(), "", errors.New("not for you"))
)

// inForce is the time within which a change is in force.
const inForce = time.Second

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// running runs a store with the templates of namespaces in a bubble, and ends it with the test.
func (c *cluster) running(t *testing.T, change ...func(*store.Options)) (*store.Templates, *store.Namespaced, *logtest.Log) {
	t.Helper()
	log := &logtest.Log{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	options := store.Options{Client: c, Logger: logger}
	for _, f := range change {
		f(&options)
	}
	all := store.New(options)
	own := store.NewNamespaced(store.NamespacedOptions{Client: c, Budget: 1 << 30, Logger: logger})
	all.Attach(own)
	runtest.Start(t, all.Run)
	runtest.Start(t, own.Run)
	synctest.Wait()
	return all, own, log
}

// value returns what the template in force under a name adds, "-" if there is none.
func value(t *testing.T, set *templates.Set, name string) string {
	t.Helper()
	e, ok := set.Get(name)
	if !ok || e.Template == nil {
		return "-"
	}
	r, err := e.Template.Render(t.Context(), templates.Input{
		Pod: map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"containers": []any{map[string]any{"name": "app"}}}},
	})
	if err != nil {
		t.Fatalf("rendering %s: %v", name, err)
	}
	return fmt.Sprint(r.Fragment.Field("metadata", "labels", "value").Value)
}

func errText(set *templates.Set, name string) string {
	e, _ := set.Get(name)
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func names(set *templates.Set) []string {
	got := []string{}
	for _, e := range set.All() {
		got = append(got, e.Name)
	}
	return got
}
