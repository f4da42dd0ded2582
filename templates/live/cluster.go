package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// Resource is the plural name of SidecarTemplates in the API.
	Resource = "sidecartemplates"
	// probeInterval is how often a cluster that cannot be listed is tried again.
	probeInterval = 2 * time.Second
	// reportPause is how long after a report the next one comes at the soonest.
	reportPause = 100 * time.Millisecond
)

// Cluster returns a source of the cluster's SidecarTemplates in an API group. Its
// client needs the verbs list and watch on the group's resource [Resource], and get on its
// CRD. While the CRD is not installed the source has no templates and says so in its
// note; it notices when the CRD comes. A CRD that goes takes no template out of force.
func Cluster(client dynamic.Interface, group string) Source {
	gvr := schema.GroupVersionResource{Group: group, Version: v1alpha1.Version, Resource: Resource}
	c := &cluster{client: client, gvr: gvr}
	c.losses = losses{read: c.definition, known: map[string]bool{}, lost: map[string]bool{}}
	return c
}

type cluster struct {
	client dynamic.Interface
	gvr    schema.GroupVersionResource
	losses losses
}

func (c *cluster) Name() string { return "cluster" }

// Run probes until the resource can be listed, then follows it, until it is gone.
func (c *cluster) Run(ctx context.Context, report func(Report)) {
	followed := false
	for c.probe(ctx, followed, report) {
		followed = true
		c.follow(ctx, report)
	}
}

// probe lists until that succeeds. It returns false when ctx has ended.
func (c *cluster) probe(ctx context.Context, followed bool, report func(Report)) bool {
	for {
		_, err := c.client.Resource(c.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			return true
		case !apierrors.IsNotFound(err):
			report(Report{Err: c.explain("list", err)})
		case followed:
			report(Report{Err: fmt.Errorf("the CRD %s is gone; its templates stay in force until it is back, or Pillion starts anew: bring it back with helm upgrade --reuse-values, and apply the templates again", c.gvr.GroupResource())})
		default:
			report(Report{Note: fmt.Sprintf("the CRD %s is not installed", c.gvr.GroupResource())})
		}
		if !sleep(ctx, probeInterval) {
			return false
		}
	}
}

// explain names what a permission error is about.
func (c *cluster) explain(verb string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("missing permission: the verb %s on the resource %s of the API group %s: %w", verb, c.gvr.Resource, c.gvr.Group, err)
	}
	return fmt.Errorf("calling %s on %s: %w", verb, c.gvr.GroupResource(), err)
}

// follow reports the objects at each change until ctx ends or the resource is gone.
func (c *cluster) follow(ctx context.Context, report func(Report)) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.losses.begin(ctx)
	h := &health{explain: c.explain, changed: make(chan struct{}, 1), gone: stop}
	informer := cache.NewSharedIndexInformerWithOptions(h.observe(c.client, c.gvr), &unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{ObjectDescription: c.gvr.String()})
	// Neither fails: the informer has not been started. What the API answers is
	// observed by health, so it need not be logged once more.
	_ = informer.SetTransform(func(obj any) (any, error) { return onlyNeeded(obj, informer.GetStore()) })
	_ = informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { h.signal() },
		UpdateFunc: func(any, any) { h.signal() },
		DeleteFunc: func(any) { h.signal() },
	})
	if err != nil {
		report(Report{Err: fmt.Errorf("watching %s: %w", c.gvr.GroupResource(), err)})
		return
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			h.signal()
		}
	})
	defer running.Wait()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
		}
		switch err := h.err(); {
		case ctx.Err() != nil:
			return
		case err != nil:
			report(Report{Err: err})
		case registration.HasSynced():
			r, err := c.losses.judge(ctx, units(informer.GetStore().List()))
			if err != nil {
				r = Report{Err: err}
				h.signal()
			}
			if ctx.Err() == nil {
				report(r)
			}
		}
		// The replicas write the status of each template, one after the other.
		if !sleep(ctx, reportPause) {
			return
		}
	}
}

// health observes an informer's calls: its own error handler hears of failures
// only, and a call that succeeds again with nothing new gives no event.
type health struct {
	explain func(verb string, err error) error
	changed chan struct{}
	gone    func()

	mu   sync.Mutex
	last error
}

// signal says that there may be something to report. It does not wait.
func (h *health) signal() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// saw takes the result of a call.
func (h *health) saw(ctx context.Context, verb string, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case apierrors.IsNotFound(err):
		h.gone()
		return
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return // the informer lists anew: the usual end of an old watch
	case err != nil:
		err = h.explain(verb, err)
	}
	h.mu.Lock()
	had := h.last
	h.last = err
	h.mu.Unlock()
	if errorText(had) != errorText(err) {
		h.signal()
	}
}

func (h *health) observe(client dynamic.Interface, gvr schema.GroupVersionResource) cache.ListerWatcher {
	resource := client.Resource(gvr)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, options)
			h.saw(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := resource.Watch(ctx, options)
			h.saw(ctx, "watch", err)
			return w, err
		},
	}, client)
}

// cachedObject is what the informer's cache keeps of an object: its manifest as text, which takes
// a tenth of the memory that the decoded object does.
type cachedObject struct {
	metav1.ObjectMeta // name, generation and version
	unit              Unit
}

// onlyNeeded makes a manifest of an object. All manifests get the apiVersion that files
// have, whichever group the cluster serves them in. An object whose manifest did not change,
// because its status did, shares the text with what the store has of it.
func onlyNeeded(obj any, store cache.KeyGetter) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	manifest := map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
		"metadata": map[string]any{"name": u.GetName()}, "spec": u.Object["spec"],
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		err = errors.Join(errors.New("writing the object as JSON"), err)
	}
	object := objectOf(u)
	if known, ok, _ := store.GetByKey(object.Name); ok {
		if before, ok := known.(*cachedObject); ok && bytes.Equal(before.unit.Data, data) {
			data = before.unit.Data
		}
	}
	return &cachedObject{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Generation: object.Generation, ResourceVersion: object.ResourceVersion},
		unit:       Unit{Source: templates.ClusterSource + object.Name, Data: data, Err: err, Object: object},
	}, nil
}

// objectOf reads the rest of an object. A status of another shape is as good as
// none: it is going to be written anew.
func objectOf(u *unstructured.Unstructured) *Object {
	o := &Object{Name: u.GetName(), Generation: u.GetGeneration(), ResourceVersion: u.GetResourceVersion()}
	if data, err := json.Marshal(u.Object["status"]); err != nil || json.Unmarshal(data, &o.Status) != nil {
		o.Status = v1alpha1.SidecarTemplateStatus{}
	}
	return o
}

// units returns the objects' manifests, by name.
func units(objects []any) Report {
	all := make([]Unit, 0, len(objects))
	for _, obj := range objects {
		s, ok := obj.(*cachedObject)
		if !ok {
			return Report{Err: fmt.Errorf("the cache of SidecarTemplates holds a %T", obj)}
		}
		all = append(all, s.unit)
	}
	slices.SortFunc(all, func(a, b Unit) int { return cmp.Compare(a.Source, b.Source) })
	return Report{Units: all}
}
