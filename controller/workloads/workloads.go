package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// page is the number of objects of one request. They are decoded one by one as they arrive, so the memory is that of
// the largest object.
const page = 500

// kinds are the kinds of workloads that people write, in the order in which they are read.
var kinds = slices.DeleteFunc(slices.Clone(owner.Kinds), func(k owner.Resource) bool { return !k.Written })

// List calls f with each workload of a namespace. It returns the kinds that it could not read, with the reason.
type List func(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) (unchecked []string)

// NewList returns a list whose client, of any group, needs the verb list on the kinds of workloads. The list has each
// workload of a namespace that makes pods and that has no controller, one at a time and in no order.
func NewList(client rest.Interface) List {
	return func(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) (unchecked []string) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, k := range kinds {
			all.Go(func() {
				err := read(ctx, client, k, namespace, func(text []byte) error {
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
					unchecked = append(unchecked, formatFailure(ctx, k, err))
				}
			})
		}
		all.Wait()
		slices.Sort(unchecked)
		return unchecked
	}
}

// read goes over all objects of a kind in a namespace, page by page.
func read(ctx context.Context, client rest.Interface, k owner.Resource, namespace string, visit func(text []byte) error) error {
	path := "/apis/" + k.Group + "/" + k.Version + "/namespaces/" + namespace + "/" + k.Resource
	return rawjson.Pages(func(next string) (io.ReadCloser, error) {
		r := client.Get().AbsPath(path).Param("limit", strconv.Itoa(page)).SetHeader("Accept", "application/json")
		if next != "" {
			r = r.Param("continue", next)
		}
		return r.Stream(ctx)
	}, visit)
}

// formatFailure returns the kind and the reason why it was not read completely.
func formatFailure(ctx context.Context, k owner.Resource, err error) string {
	why := err.Error()
	switch {
	case ctx.Err() != nil:
		why = "there was no time left"
	case apierrors.IsForbidden(err):
		why = "missing permission: the verb list"
	}
	return fmt.Sprintf("%s (%s)", k.Resource, why)
}

// finished reports whether an object is a Job that makes no more pods.
func finished(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True"
	})
}
