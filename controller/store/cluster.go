package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// Resource is the plural name of SidecarTemplates in the API.
	Resource = "sidecartemplates"
	// probeInterval is how often a cluster without the resource is asked again, and
	// failedInterval one that does not answer. probeTimeout bounds the question.
	probeInterval  = 2 * time.Second
	failedInterval = 800 * time.Millisecond
	probeTimeout   = 5 * time.Second
	// reportPause is how long after a report the next one comes at the soonest. While the CRD
	// cannot be read it becomes twice as long each time, up to unreadPause.
	reportPause = 100 * time.Millisecond
	unreadPause = 10 * time.Second
)

// pauses are those between reports while the CRD cannot be read.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: reportPause, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: unreadPause}
}

// Cluster returns a source of the cluster's SidecarTemplates in an API group. Its
// client needs the verbs list and watch on the group's resource [Resource], and get on its
// CRD. While the CRD is not installed the source has no templates and says so in its
// note; it notices when the CRD comes. A CRD that goes takes no template out of force.
// The log hears how current the source is.
func Cluster(client dynamic.Interface, group string, log *slog.Logger) Source {
	gvr := schema.GroupVersionResource{Group: group, Version: v1alpha1.Version, Resource: Resource}
	c := &cluster{client: client, gvr: gvr, log: log, asked: time.Now()}
	c.losses = losses{read: c.definition, known: map[string]origin{}, lost: map[string]bool{}}
	return c
}

type cluster struct {
	client dynamic.Interface
	gvr    schema.GroupVersionResource
	log    *slog.Logger
	losses losses

	mu sync.Mutex
	// cache is nil while there is no resource to follow. Then asked is when the API server
	// last said so, and failed why it cannot be asked.
	cache  *follow.Cache
	asked  time.Time
	failed error
	// proofs are those of earlier caches.
	proofs int
}

// State implements [Cached].
func (c *cluster) State() follow.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cache == nil {
		return follow.State{Age: time.Since(c.asked), Unreadable: c.failed, Proofs: c.proofs}
	}
	state := c.cache.State()
	state.Proofs += c.proofs
	return state
}

// use makes a cache the one that the state is about. Nil is none: what the API server said at
// a time then counts, or why it said nothing.
func (c *cluster) use(cache *follow.Cache, asked time.Time, failed error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cache != nil {
		c.proofs += c.cache.State().Proofs
	}
	c.cache, c.failed = cache, failed
	if failed == nil {
		c.asked = asked
	}
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
		began := time.Now()
		err := c.listOne(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			return true
		case !apierrors.IsNotFound(err):
			c.use(nil, began, err)
			report(Report{Err: c.explain("list", err)})
		case followed:
			c.use(nil, began, nil)
			report(Report{Err: fmt.Errorf("the CRD %s is gone; its templates stay in force until it is back, or Pillion starts anew: bring it back with helm upgrade --reset-then-reuse-values, and apply the templates again", c.gvr.GroupResource())})
		default:
			c.use(nil, began, nil)
			report(Report{Note: fmt.Sprintf("the CRD %s is not installed", c.gvr.GroupResource())})
		}
		pause := probeInterval
		if !apierrors.IsNotFound(err) {
			pause = failedInterval
		}
		if !waiting.For(ctx, pause) {
			return false
		}
	}
}

func (c *cluster) listOne(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.client.Resource(c.gvr).List(ctx, metav1.ListOptions{Limit: 1})
	return err
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
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	resource := c.client.Resource(c.gvr)
	said := map[string]string{} // by verb: the error that was reported
	var cache *follow.Cache
	cache = follow.New(follow.Options{
		Name: "templates", Example: &unstructured.Unstructured{}, Client: c.client, Checked: true, Logger: c.log,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		Watch:     resource.Watch,
		Transform: func(obj any) (any, error) { return onlyNeeded(obj, c.gvr.Group, cache.Get) },
		Changed:   func(string) { signal() },
		Answered: func(verb string, err error) {
			switch text := errorText(err); {
			case apierrors.IsNotFound(err):
				stop()
			case said[verb] != text:
				said[verb] = text
				signal()
			}
		},
	})
	c.use(cache, time.Time{}, nil)
	var running sync.WaitGroup
	running.Go(func() { cache.Run(ctx) })
	running.Go(func() {
		select {
		case <-ctx.Done():
		case <-cache.Synced():
			signal()
		}
	})
	defer running.Wait()
	defer stop()
	unread := pauses()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		pause := reportPause
		r := Report{Err: c.failure(cache)}
		if cache.HasSynced() {
			var err error
			if r, err = c.losses.judge(ctx, units(cache.List(), r.Err)); err != nil {
				r = Report{Err: err}
				pause = unread.Step()
				signal()
			} else {
				unread = pauses()
			}
		}
		if ctx.Err() != nil {
			return
		}
		if r.Err != nil || r.Units != nil {
			report(r)
		}
		// The replicas write the status of each template, one after the other.
		if !waiting.For(ctx, pause) {
			return
		}
	}
}

// failure says which of the verbs does not work. A list that succeeds says nothing of the
// watch.
func (c *cluster) failure(cache *follow.Cache) error {
	for _, verb := range []string{"list", "watch"} {
		if err := cache.Failed(verb); err != nil {
			return c.explain(verb, err)
		}
	}
	return nil
}

// cachedObject is what the cache keeps of an object: its manifest as text, which takes
// a tenth of the memory that the decoded object does, or, of a mirror, even less.
type cachedObject struct {
	metav1.ObjectMeta // name, generation and version
	unit              Unit
	mirror            *MirrorObject
}

// onlyNeeded makes a manifest of an object. All manifests get the apiVersion that files
// have, whichever group the cluster serves them in. An object whose manifest did not change,
// because its status did, shares the text with what is known of it.
func onlyNeeded(obj any, prefix string, known func(name string) (any, bool)) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	if templates.IsMirror(prefix, u.GetLabels()) {
		mirror := mirrorOf(u, prefix)
		return &cachedObject{ObjectMeta: metav1.ObjectMeta{Name: mirror.Name, Generation: mirror.Generation, ResourceVersion: mirror.ResourceVersion}, mirror: mirror}, nil
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
	if kept, ok := known(object.Name); ok {
		if before, ok := kept.(*cachedObject); ok && bytes.Equal(before.unit.Data, data) {
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
	o := &Object{Name: u.GetName(), UID: u.GetUID(), Generation: u.GetGeneration(), ResourceVersion: u.GetResourceVersion()}
	if data, err := json.Marshal(u.Object["status"]); err != nil || json.Unmarshal(data, &o.Status) != nil {
		o.Status = v1alpha1.SidecarTemplateStatus{}
	}
	return o
}

// units returns the objects' manifests, by name, and what else is to be reported.
func units(objects []any, failed error) Report {
	all, mirrors := make([]Unit, 0, len(objects)), []MirrorObject{}
	for _, obj := range objects {
		s, ok := obj.(*cachedObject)
		switch {
		case !ok:
			return Report{Err: fmt.Errorf("the cache of SidecarTemplates holds a %T", obj)}
		case s.mirror != nil:
			mirrors = append(mirrors, *s.mirror)
		default:
			all = append(all, s.unit)
		}
	}
	slices.SortFunc(all, func(a, b Unit) int { return cmp.Compare(a.Source, b.Source) })
	slices.SortFunc(mirrors, func(a, b MirrorObject) int { return cmp.Compare(a.Name, b.Name) })
	return Report{Units: all, Mirrors: mirrors, Err: failed}
}
