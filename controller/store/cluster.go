package store

import (
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
	c := &cluster{client: client, gvr: schema.GroupVersionResource{Group: group, Version: v1alpha1.Version, Resource: Resource}, changed: waiting.NewWake()}
	c.losses = losses{read: c.definition, lost: map[string]bool{}}
	resource := client.Resource(c.gvr)
	said := map[string]string{} // by verb: the error that was reported
	c.cache = follow.New(follow.Options{
		Name: "templates", Example: &unstructured.Unstructured{}, Logger: log,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		Watch:     resource.Watch,
		Transform: func(obj any) (any, error) { return onlyNeeded(obj, group), nil },
		Changed:   func(string) { c.changed.Wake() },
		Filled:    c.changed.Wake,
		Answered: func(verb string, err error) {
			if text := errorText(err); said[verb] != text {
				said[verb] = text
				c.changed.Wake()
			}
		},
	})
	return c
}

type cluster struct {
	client dynamic.Interface
	gvr    schema.GroupVersionResource
	losses losses
	cache  *follow.Cache
	// changed has the source look at the cache.
	changed waiting.Wake
}

// State implements [Cached].
func (c *cluster) State() follow.State { return c.cache.State() }

func (c *cluster) Name() string { return "cluster" }

// Run reports the objects at each change until ctx ends.
func (c *cluster) Run(ctx context.Context, report func(Report)) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.cache.Run(ctx) })
	unread := pauses()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		pause := reportPause
		r, err := c.look(ctx)
		if err != nil {
			r = Report{Err: err}
			pause = unread.Step()
			c.changed.Wake()
		} else {
			unread = pauses()
		}
		if ctx.Err() != nil {
			return
		}
		if r.Err != nil || r.Units != nil || r.Note != "" {
			report(r)
		}
		// The replicas write the status of each template, one after the other.
		if !waiting.For(ctx, pause) {
			return
		}
	}
}

// look returns what the cache has to report. The error says that it cannot be told yet.
func (c *cluster) look(ctx context.Context) (Report, error) {
	var failed error
	for _, verb := range []string{"list", "watch"} { // a list that succeeds says nothing of the watch
		err := c.cache.Failed(verb)
		switch {
		case err == nil:
		case apierrors.IsNotFound(err) && c.cache.HasSynced():
			return Report{Err: fmt.Errorf("the CRD %s is gone; its templates stay in force until it is back, or Pillion restarts: restore it with helm upgrade --reset-then-reuse-values, and apply the templates again", c.gvr.GroupResource())}, nil
		case apierrors.IsNotFound(err):
			return Report{Note: fmt.Sprintf("the CRD %s is not installed", c.gvr.GroupResource())}, nil
		case apierrors.IsForbidden(err):
			failed = cmp.Or(failed, fmt.Errorf("missing permission: the verb %s on the resource %s of the API group %s: %w", verb, c.gvr.Resource, c.gvr.Group, err))
		default:
			failed = cmp.Or(failed, fmt.Errorf("calling %s on %s: %w", verb, c.gvr.GroupResource(), err))
		}
	}
	if !c.cache.HasSynced() {
		return Report{Err: failed}, nil
	}
	return c.losses.judge(ctx, units(c.cache.List(), failed))
}

// cachedObject is what the cache keeps of an object: its manifest as text, which takes
// a tenth of the memory that the decoded object does, or, of a mirror, even less.
type cachedObject struct {
	metav1.ObjectMeta // name, generation and version
	unit              Unit
	mirror            *MirrorObject
}

// onlyNeeded makes a manifest of an object. All manifests get the apiVersion that files
// have, whichever group the cluster serves them in.
func onlyNeeded(obj any, prefix string) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	if templates.IsMirror(prefix, u.GetLabels()) {
		mirror := mirrorOf(u, prefix)
		return &cachedObject{ObjectMeta: metav1.ObjectMeta{Name: mirror.Name, Generation: mirror.Generation, ResourceVersion: mirror.ResourceVersion}, mirror: mirror}
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
	return &cachedObject{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Generation: object.Generation, ResourceVersion: object.ResourceVersion},
		unit:       Unit{Source: templates.ClusterSource + object.Name, Data: data, Err: err, Object: object},
	}
}

// objectOf reads the rest of an object. A status of another shape is as good as
// none: it is going to be written anew.
func objectOf(u *unstructured.Unstructured) *Object {
	o := &Object{Name: u.GetName(), UID: u.GetUID(), Created: u.GetCreationTimestamp(), Generation: u.GetGeneration(), ResourceVersion: u.GetResourceVersion()}
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
