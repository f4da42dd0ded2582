package labels

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Writer writes labels of namespaces.
type Writer struct {
	Client metadata.Interface
	Rules  Rules
}

// triesForVersion is how often a forced apply is for the version of the namespace that was read just before.
const triesForVersion = 3

// PutOn makes the changes of one namespace that put labels on, by one server-side apply of all labels that Pillion
// owns there. The apply is not forced: the API server answers with a conflict if somebody else owns a label. Only
// the required label, which is Pillion's alone, and a label that nobody owns are taken, unless somebody has
// changed the value.
func (w Writer) PutOn(ctx context.Context, ns Namespace, changes []Change) error {
	applied := map[string]any{"labels": w.Rules.Applied(ns, changes)}
	err := w.patch(ctx, ns.Name, types.ApplyPatchType, applied, nil)
	if isHeld(err) && (isNobodys(err) || len(changes) == 1 && changes[0].Key == v1alpha1.RequiredLabel) {
		return w.take(ctx, ns.Name, applied, changes)
	}
	return err
}

// take makes the changes by a forced apply, for the version of the namespace that it reads, where the labels are what
// they are to be changed from. Somebody who writes the namespace all the time does not keep the label away: the
// last try is for any version. A hand that sets the label in that moment loses its value.
func (w Writer) take(ctx context.Context, namespace string, applied map[string]any, changes []Change) error {
	for try := 1; ; try++ {
		now, err := w.Client.Resource(namespaces).Get(ctx, namespace, metav1.GetOptions{})
		if err != nil || slices.ContainsFunc(changes, func(c Change) bool { return now.Labels[c.Key] != c.From }) {
			return err // the cache hears of a value that changed
		}
		if applied["resourceVersion"] = now.ResourceVersion; try > triesForVersion {
			delete(applied, "resourceVersion")
		}
		if err = w.patch(ctx, namespace, types.ApplyPatchType, applied, new(true)); !apierrors.IsConflict(err) || try > triesForVersion {
			return err
		}
	}
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// isHeld reports whether somebody else owns a label of an apply.
func isHeld(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// isNobodys reports whether the labels of an apply that is a conflict have no owner, since somebody reset the
// managed fields of the namespace.
func isNobodys(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return !strings.Contains(c.Message, strconv.Quote(Nobody))
	})
}

// TakeOff makes the changes of one namespace that take labels off. It is a merge patch, since a label that a
// webhook put on in somebody's write has no owner. It is for the version of the namespace that the changes are for:
// a value that somebody set since stays.
func (w Writer) TakeOff(ctx context.Context, ns Namespace, changes []Change) error {
	off := map[string]any{}
	for _, c := range changes {
		off[c.Key] = nil
	}
	return w.patch(ctx, ns.Name, types.MergePatchType, map[string]any{"resourceVersion": ns.ResourceVersion, "labels": off}, nil)
}

func (w Writer) patch(ctx context.Context, namespace string, as types.PatchType, of map[string]any, force *bool) error {
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": of})
	if err != nil {
		return err
	}
	_, err = w.Client.Resource(namespaces).Patch(ctx, namespace, as, data, metav1.PatchOptions{FieldManager: FieldManager, Force: force})
	return err
}
