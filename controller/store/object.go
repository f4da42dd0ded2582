package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// The resources of templates.
var (
	Resource           = v1alpha1.Resource("sidecartemplates")
	NamespacedResource = v1alpha1.Resource("namespacedsidecartemplates")
)

// Object is what a cache has of a SidecarTemplate or a NamespacedSidecarTemplate.
type Object struct {
	// ObjectMeta has the name, namespace, UID, generation, version and time of creation, and nothing else.
	metav1.ObjectMeta
	// Manifest is the object as JSON, without status and other metadata: a tenth of the memory that the decoded
	// object takes. Of a spec that is larger than it may be, it has what [templates.Demand] leaves.
	Manifest []byte
	// Cost is how many bytes the template takes compiled, about. Excess says why the spec is not compiled.
	Cost   int64
	Excess error
	// Status is what the API server has.
	Status v1alpha1.SidecarTemplateStatus
}

// Source is the object's [templates.Options.Source].
func (o *Object) Source() string {
	if o.Namespace == "" {
		return templates.ClusterSource + o.Name
	}
	return templates.SourceIn(o.Namespace, o.Name)
}

// key is the object's key in a cache.
func (o *Object) key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// sameSpec reports whether two versions of an object have one spec.
func (o *Object) sameSpec(other *Object) bool {
	return o.UID == other.UID && o.Generation == other.Generation
}

// NewObject returns what is needed of an object.
func NewObject(u *unstructured.Unstructured) *Object {
	o := &Object{ObjectMeta: metav1.ObjectMeta{
		Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), Generation: u.GetGeneration(),
		ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
	}}
	// A status of another shape is as good as none: it is going to be written anew.
	if data, err := json.Marshal(u.Object["status"]); err != nil || json.Unmarshal(data, &o.Status) != nil {
		o.Status = v1alpha1.SidecarTemplateStatus{}
	}
	spec, _ := json.Marshal(u.Object["spec"]) // it was JSON
	o.Cost = templates.Cost(spec)
	if o.Namespace != "" {
		if o.Excess = templates.TooLarge(spec); o.Excess != nil {
			spec, o.Cost = templates.Demand(spec), 0
		}
	}
	o.Manifest = templates.ManifestOf(o.Namespace, o.Name, spec)
	return o
}

// follower follows the objects of one resource.
type follower struct {
	*follow.Cache
	client dynamic.Interface
	of     schema.GroupVersionResource
	log    *slog.Logger
	// forbidden bounds how often the log has that the CRD may not be read.
	forbidden sync.Once
}

// followerOptions say what a follower calls, and how many objects a page of its lists has, 0 for the default.
type followerOptions struct {
	changed func(key string)
	filled  func()
	page    int64
}

func newFollower(client dynamic.Interface, of schema.GroupVersionResource, name string, log *slog.Logger, o followerOptions) *follower {
	resource := client.Resource(of)
	return &follower{client: client, of: of, log: log, Cache: follow.New(follow.Options{
		Name: name, Example: &unstructured.Unstructured{}, Logger: log,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if o.page != 0 {
				options.Limit = o.page
			}
			return resource.List(ctx, options)
		},
		Watch: resource.Watch,
		Transform: func(obj any) (any, error) {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				return NewObject(u), nil
			}
			return obj, nil
		},
		Changed: o.changed, Filled: o.filled,
	})}
}

// objects returns all objects, by their keys.
func (f *follower) objects() []*Object {
	var all []*Object
	for _, obj := range f.List() {
		if o, ok := obj.(*Object); ok {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *Object) int { return cmp.Compare(a.key(), b.key()) })
	return all
}

// unread returns why the objects could not be listed, nil if they were.
func (f *follower) unread() error {
	err := cmp.Or(f.Failed("list"), f.Failed("watch"))
	switch {
	case f.HasSynced():
		return nil
	case err == nil:
		return fmt.Errorf("%s are not listed yet", f.of.GroupResource())
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the CRD %s is not installed; the chart has it in crds/: helm show crds CHART | kubectl apply --server-side --force-conflicts --field-manager=helm -f -", f.of.GroupResource())
	case apierrors.IsForbidden(err):
		return fmt.Errorf("missing permission: the verbs list and watch on the resource %s of the API group %s: %w", f.of.Resource, f.of.Group, err)
	}
	return fmt.Errorf("listing %s: %w", f.of.GroupResource(), err)
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// wentWithCRD returns a function that reports whether an object that is gone went with its CRD. Who deletes a template
// wants it gone. Who deletes the CRD seldom means every template of the cluster.
func (f *follower) wentWithCRD(ctx context.Context) (func(*Object) bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	name := f.of.GroupResource().String()
	crd, err := f.client.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return func(*Object) bool { return true }, nil
	case apierrors.IsForbidden(err):
		f.forbidden.Do(func() {
			f.log.Error("missing permission: the verb get on the CRD, without which objects that went with it are taken for deleted ones", "crd", name, "error", err)
		})
		return func(*Object) bool { return false }, nil
	case err != nil:
		return nil, fmt.Errorf("reading the CRD %s of templates that are gone: %w", name, err)
	}
	made := crd.GetCreationTimestamp()
	return func(o *Object) bool {
		return crd.GetDeletionTimestamp() != nil || o.CreationTimestamp.Before(&made)
	}, nil
}
