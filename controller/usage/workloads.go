package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

const (
	// page is how many objects an API server is asked for at a time. They are decoded one by
	// one as they come, so memory holds the largest one, whatever the page takes.
	page = 500
	// mostFound bounds how many are named.
	mostFound = 10
)

// kind is a resource whose objects can name templates.
type kind struct {
	name, path string
	// apiVersion and kind are what a list leaves out of its items.
	apiVersion, kind string
	// accept is the form of the answer, fields a field selector.
	accept, fields string
}

// kinds in the order in which they are read: those with the fewest objects first.
var kinds = []kind{
	{name: "daemonset", path: "/apis/apps/v1/daemonsets", apiVersion: "apps/v1", kind: "DaemonSet"},
	{name: "statefulset", path: "/apis/apps/v1/statefulsets", apiVersion: "apps/v1", kind: "StatefulSet"},
	{name: "cronjob", path: "/apis/batch/v1/cronjobs", apiVersion: "batch/v1", kind: "CronJob"},
	{name: "deployment", path: "/apis/apps/v1/deployments", apiVersion: "apps/v1", kind: "Deployment"},
	{name: "job", path: "/apis/batch/v1/jobs", apiVersion: "batch/v1", kind: "Job"},
	{
		name: "pod", path: "/api/v1/pods", fields: "status.phase!=Succeeded,status.phase!=Failed",
		accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	},
}

// Found is what names a template.
type Found struct {
	// Names are the first ten, as in "deployment shop/web", and Total is how many there are,
	// as far as they were read.
	Names []string
	Total int
	// Unread says what could not be looked at, and why.
	Unread []string
}

// Workloads reads the workloads of a cluster, and pods without one. Make one with
// [NewWorkloads].
type Workloads struct {
	// get reads a page. It needs the verb list on the resources of kinds.
	get func(ctx context.Context, k kind, next string) (io.ReadCloser, error)
	// slot lets one reading run at a time.
	slot  chan struct{}
	rules Rules
	// known returns a namespace of the cache.
	known func(name string) (templates.Namespace, bool)
}

// NewWorkloads returns a reader. Known returns a namespace of the cache; what is in a
// namespace that does not count is left out.
func NewWorkloads(config *rest.Config, rules Rules, known func(name string) (templates.Namespace, bool)) (*Workloads, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for workloads: %w", err)
	}
	get := func(ctx context.Context, k kind, next string) (io.ReadCloser, error) {
		r := client.Get().AbsPath(k.path).Param("limit", strconv.Itoa(page)).SetHeader("Accept", cmp.Or(k.accept, "application/json"))
		if next != "" {
			r = r.Param("continue", next)
		}
		if k.fields != "" {
			r = r.Param("fieldSelector", k.fields)
		}
		return r.Stream(ctx)
	}
	return &Workloads{get: get, slot: make(chan struct{}, 1), rules: rules, known: known}, nil
}

// object has the fields of a workload or a pod that are read.
type object struct {
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
		Annotations     map[string]string
		OwnerReferences []metav1.OwnerReference
	}
	Spec struct {
		Template    podTemplate
		JobTemplate struct {
			Spec struct{ Template podTemplate }
		}
	}
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

type podTemplate struct {
	Metadata struct{ Annotations map[string]string }
}

// Naming returns what names a template in the annotation of its pods; with byDefault also
// what asks by "true". It ends with its context, and says then what it has not read.
func (w *Workloads) Naming(ctx context.Context, template string, byDefault bool) Found {
	var found Found
	select {
	case w.slot <- struct{}{}:
		defer func() { <-w.slot }()
	case <-ctx.Done():
		found.Unread = []string{"workloads and pods (another deletion is being looked at)"}
		return found
	}
	seen := map[string]bool{}
	for _, k := range kinds {
		if err := w.read(ctx, k, func(text []byte) error {
			var o object
			if err := json.Unmarshal(text, &o); err != nil {
				return err
			}
			if w.names(k, &o, template, byDefault) && !w.owned(&o, seen) {
				name := k.name + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
				if found.Total++; len(found.Names) < mostFound {
					found.Names = append(found.Names, name)
				}
				if k.name != "pod" {
					seen[name] = true
				}
			}
			return nil
		}); err != nil {
			found.Unread = append(found.Unread, unread(ctx, k, err))
		}
	}
	return found
}

// unread says that a kind was not read to its end.
func unread(ctx context.Context, k kind, err error) string {
	why := err.Error()
	switch {
	case ctx.Err() != nil:
		why = "there was no time left"
	case apierrors.IsForbidden(err):
		why = "missing permission: the verb list"
	}
	return fmt.Sprintf("%ss (%s)", k.name, why)
}

// In calls f with each workload of a namespace that makes pods and that no other one owns, one at a
// time and in no order. It ends with its context, and returns what could not be looked at.
func (w *Workloads) In(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) (unlooked []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, k := range kinds {
		if k.kind == "" {
			continue // a pod is not made again
		}
		all.Go(func() {
			at := k
			at.path = path.Dir(k.path) + "/namespaces/" + namespace + "/" + path.Base(k.path)
			err := w.read(ctx, at, func(text []byte) error {
				var o object
				if json.Unmarshal(text, &o) != nil || o.finished() || slices.ContainsFunc(o.Metadata.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				f(k.apiVersion, k.kind, slices.Clone(text))
				return nil
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				unlooked = append(unlooked, unread(ctx, k, err))
			}
		})
	}
	all.Wait()
	slices.Sort(unlooked)
	return unlooked
}

// finished reports whether an object is a Job that makes no more pods.
func (o *object) finished() bool {
	for _, c := range o.Status.Conditions {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == "True" {
			return true
		}
	}
	return false
}

// names reports whether the annotation of an object's pods names the template.
func (w *Workloads) names(k kind, o *object, template string, byDefault bool) bool {
	annotations := o.Spec.Template.Metadata.Annotations
	switch k.name {
	case "pod":
		annotations = o.Metadata.Annotations
	case "cronjob":
		annotations = o.Spec.JobTemplate.Spec.Template.Metadata.Annotations
	case "job":
		if o.finished() {
			return false
		}
	}
	value, ok := annotations[templates.InjectKey(w.rules.Prefix)]
	ask, err := policy.ParseAsk(value, ok, policy.Pod)
	if err != nil || !slices.Contains(ask.Names, template) && !slices.Contains(ask.Plus, template) && !(byDefault && ask.Mode == policy.Default) {
		return false
	}
	ns, known := w.known(o.Metadata.Namespace)
	if !known {
		ns.Name = o.Metadata.Namespace
	}
	return w.rules.Counts(ns)
}

// owned reports whether an object is of a workload that is among the seen ones.
func (w *Workloads) owned(o *object, seen map[string]bool) bool {
	for _, r := range o.Metadata.OwnerReferences {
		if r.Controller == nil || !*r.Controller {
			continue
		}
		name := r.Name
		owner := strings.ToLower(r.Kind)
		if owner == "replicaset" {
			owner, name = "deployment", strings.TrimSuffix(name, "-"+o.Metadata.Labels["pod-template-hash"])
		}
		if seen[owner+" "+o.Metadata.Namespace+"/"+name] {
			return true
		}
	}
	return false
}

// read goes over all objects of a kind, page by page.
func (w *Workloads) read(ctx context.Context, k kind, visit func(text []byte) error) error {
	return rawjson.Pages(func(next string) (io.ReadCloser, error) { return w.get(ctx, k, next) }, visit)
}
