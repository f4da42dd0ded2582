package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/owner"
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

// kinds are the kinds of workloads that people write, in the order in which they are read.
var kinds = slices.DeleteFunc(slices.Clone(owner.Kinds), func(k owner.Resource) bool { return !k.Written })

// pods are read last, and only their metadata.
var pods = owner.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}

// pathOf returns the path of a resource's objects in a namespace, of all for "".
func pathOf(of schema.GroupVersionResource, namespace string) string {
	path := "/apis/" + of.Group + "/" + of.Version
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + of.Resource
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
	// get reads a page of objects in a namespace, of all for "". It needs the verb list on the
	// resources of kinds, and on pods.
	get func(ctx context.Context, k owner.Resource, namespace, next string) (io.ReadCloser, error)
	// slot lets one reading run at a time.
	slot  chan struct{}
	rules Rules
	// known returns a namespace of the cache.
	known func(name string) (templates.Namespace, bool)
}

// NewWorkloads returns a reader. Its client may be of any group. Known returns a namespace of the
// cache; what is in a namespace that does not count is left out.
func NewWorkloads(client rest.Interface, rules Rules, known func(name string) (templates.Namespace, bool)) *Workloads {
	get := func(ctx context.Context, k owner.Resource, namespace, next string) (io.ReadCloser, error) {
		r := client.Get().AbsPath(pathOf(k.GroupVersionResource, namespace)).Param("limit", strconv.Itoa(page)).SetHeader("Accept", "application/json")
		if next != "" {
			r = r.Param("continue", next)
		}
		if k == pods {
			r = r.Param("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed").
				SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		}
		return r.Stream(ctx)
	}
	return &Workloads{get: get, slot: make(chan struct{}, 1), rules: rules, known: known}
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
	for _, k := range append(slices.Clone(kinds), pods) {
		if err := w.read(ctx, k, "", func(text []byte) error {
			var o unstructured.Unstructured
			if err := json.Unmarshal(text, &o.Object); err != nil {
				return err
			}
			if w.names(k, &o, template, byDefault) && !seen[reference(o.GetNamespace(), owner.WorkloadOf(o.Object))] {
				name := reference(o.GetNamespace(), owner.Workload{Kind: k.Kind, Name: o.GetName()})
				if found.Total++; len(found.Names) < mostFound {
					found.Names = append(found.Names, name)
				}
				if k != pods {
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

// reference names a workload of a namespace.
func reference(namespace string, w owner.Workload) string {
	return strings.ToLower(w.Kind) + " " + namespace + "/" + w.Name
}

// unread says that a kind was not read to its end.
func unread(ctx context.Context, k owner.Resource, err error) string {
	why := err.Error()
	switch {
	case ctx.Err() != nil:
		why = "there was no time left"
	case apierrors.IsForbidden(err):
		why = "missing permission: the verb list"
	}
	return fmt.Sprintf("%s (%s)", k.Resource, why)
}

// In calls f with each workload of a namespace that makes pods and that no other one owns, one at a
// time and in no order. It ends with its context, and returns what could not be looked at.
func (w *Workloads) In(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) (unlooked []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, k := range kinds {
		all.Go(func() {
			err := w.read(ctx, k, namespace, func(text []byte) error {
				var o unstructured.Unstructured
				if json.Unmarshal(text, &o.Object) != nil || finished(&o) || metav1.GetControllerOfNoCopy(&o) != nil {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				f(k.GroupVersion().String(), k.Kind, slices.Clone(text))
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
func finished(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True"
	})
}

// names reports whether the annotation of an object's pods names the template.
func (w *Workloads) names(k owner.Resource, o *unstructured.Unstructured, template string, byDefault bool) bool {
	annotations := o.GetAnnotations()
	if k != pods {
		annotations, _, _ = unstructured.NestedStringMap(o.Object, append(owner.TemplatePath(k.Kind), "metadata", "annotations")...)
	}
	if k.Kind == "Job" && finished(o) {
		return false
	}
	value, ok := annotations[templates.InjectKey(w.rules.Prefix)]
	ask, err := policy.ParseAsk(value, ok, policy.Pod)
	if err != nil || !slices.Contains(ask.Names, template) && !slices.Contains(ask.Plus, template) && !(byDefault && ask.Mode == policy.Default) {
		return false
	}
	ns, known := w.known(o.GetNamespace())
	if !known {
		ns.Name = o.GetNamespace()
	}
	return w.rules.Counts(ns)
}

// read goes over all objects of a kind in a namespace, of all for "", page by page.
func (w *Workloads) read(ctx context.Context, k owner.Resource, namespace string, visit func(text []byte) error) error {
	return rawjson.Pages(func(next string) (io.ReadCloser, error) { return w.get(ctx, k, namespace, next) }, visit)
}
