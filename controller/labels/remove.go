package labels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// removers bounds the concurrent writes of a [Remover].
	removers = 16
	// removeTries bounds the tries for one namespace.
	removeTries = 5
)

// Remover removes Pillion's labels from namespaces. pillion.dev/required is always Pillion's.
// pillion.dev/injection is Pillion's unless another manager owns it: a value that Pillion's webhook set
// in another client's write has no owner, because managed fields do not show changes by webhooks. A
// value with another owner was set by hand, and stays.
type Remover struct {
	// Namespaces needs the verbs list, get and patch.
	Namespaces metadata.ResourceInterface
	// DryRun means that Remove writes nothing.
	DryRun bool
}

// Remove removes the labels from every namespace. It returns the keys of the removed labels, by
// namespace, and every error.
func (r Remover) Remove(ctx context.Context) (map[string][]string, error) {
	removed := map[string][]string{}
	var failed error
	var mu sync.Mutex
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return r.Namespaces.List(ctx, o)
	})
	for _, key := range []string{v1alpha1.InjectionLabel, v1alpha1.RequiredLabel} {
		var group errgroup.Group
		group.SetLimit(removers)
		err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: key}, func(object runtime.Object) error {
			ns, ok := object.(*metav1.PartialObjectMetadata)
			mu.Lock()
			done := ok && removed[ns.Name] != nil // in the list of the other label
			mu.Unlock()
			if !ok || done {
				return nil
			}
			group.Go(func() error {
				keys, err := r.removeFrom(ctx, ns)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("removing labels from namespace %s: %w", ns.Name, err))
				} else if len(keys) > 0 {
					removed[ns.Name] = keys
				}
				return nil
			})
			return nil
		})
		_ = group.Wait() // the errors are in failed
		if err != nil {
			return removed, errors.Join(failed, fmt.Errorf("listing namespaces with the label %s: %w", key, err))
		}
	}
	return removed, failed
}

// removeFrom removes Pillion's labels from a namespace, and returns their keys. The write requires
// the version that was read, so that a value set by hand meanwhile stays.
func (r Remover) removeFrom(ctx context.Context, ns *metav1.PartialObjectMetadata) (keys []string, err error) {
	for range removeTries {
		keys = PillionsKeys(ns)
		if len(keys) == 0 || r.DryRun {
			return keys, nil
		}
		labels := map[string]any{}
		for _, key := range keys {
			labels[key] = nil
		}
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": ns.ResourceVersion, "labels": labels}}); err != nil {
			return nil, err
		}
		_, err = r.Namespaces.Patch(ctx, ns.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if !apierrors.IsConflict(err) {
			return keys, err
		}
		if ns, err = r.Namespaces.Get(ctx, ns.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return nil, err
}

// PillionsKeys returns the keys of the labels of a namespace that Pillion set.
func PillionsKeys(ns metav1.Object) []string {
	var keys []string
	injection, required := v1alpha1.InjectionLabel, v1alpha1.RequiredLabel
	if value, ok := ns.GetLabels()[injection]; ok && value != v1alpha1.InjectionDisabled && len(ByHand(ns, []string{injection})) == 0 {
		keys = append(keys, injection)
	}
	if _, ok := ns.GetLabels()[required]; ok {
		keys = append(keys, required)
	}
	return keys
}
