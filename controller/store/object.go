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

// Object is a SidecarTemplate or a NamespacedSidecarTemplate in its form in the cache.
type Object struct {
	// ObjectMeta has the name, namespace, UID, generation, version and time of creation, and nothing else.
	metav1.ObjectMeta
	// Manifest is the object as JSON, without status and other metadata. It needs a tenth of the memory of the
	// decoded object. A spec that is too large is reduced by [templates.Demand].
	Manifest []byte
	// Cost estimates the memory of the compiled template, in bytes. Excess is the reason why the spec is not compiled.
	Cost   int64
	Excess error
	// Status is the status in the API server.
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

// NewObject returns the cached form of an object.
func NewObject(u *unstructured.Unstructured) *Object {
	o := &Object{ObjectMeta: metav1.ObjectMeta{
		Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), Generation: u.GetGeneration(),
		ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
	}}
	// A malformed status is ignored, and will be replaced.
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

// follower is a cache of the objects of one resource.
type follower struct {
	*follow.Cache
	client dynamic.Interface
	gvr    schema.GroupVersionResource
	log    *slog.Logger
	// forbidden logs once that Pillion may not read the CRD.
	forbidden sync.Once
}

// followerOptions configure a follower. page is the number of objects in a page of a list, 0 for the default.
type followerOptions struct {
	changed func(key string)
	filled  func()
	page    int64
}

func newFollower(client dynamic.Interface, of schema.GroupVersionResource, name string, log *slog.Logger, o followerOptions) *follower {
	resource := client.Resource(of)
	return &follower{client: client, gvr: of, log: log, Cache: follow.New(follow.Options{
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

// listError returns the reason why the objects have not been listed, or nil.
func (f *follower) listError() error {
	err := cmp.Or(f.Failed("list"), f.Failed("watch"))
	switch {
	case f.HasSynced():
		return nil
	case err == nil:
		return fmt.Errorf("%s are not listed yet", f.gvr.GroupResource())
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the CRD %s is not installed; the chart has it in crds/: helm show crds CHART | kubectl apply --server-side --force-conflicts --field-manager=helm -f -", f.gvr.GroupResource())
	case apierrors.IsForbidden(err):
		return fmt.Errorf("missing permission: the verbs list and watch on the resource %s of the API group %s: %w", f.gvr.Resource, f.gvr.Group, err)
	}
	return fmt.Errorf("listing %s: %w", f.gvr.GroupResource(), err)
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// deletedWithCRD returns a function that reports whether a missing object was deleted with its CRD. A person who
// deletes the CRD seldom intends to delete every template of the cluster.
func (f *follower) deletedWithCRD(ctx context.Context) (func(*Object) bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	name := f.gvr.GroupResource().String()
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
	created := crd.GetCreationTimestamp()
	return func(o *Object) bool {
		return crd.GetDeletionTimestamp() != nil || o.CreationTimestamp.Before(&created)
	}, nil
}
