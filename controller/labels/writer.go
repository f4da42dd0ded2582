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

// triesForVersion is how often a forced apply requires the version of the namespace that was read just before.
const triesForVersion = 3

// PutOn sets labels of one namespace, by one server-side apply of all labels that Pillion owns there. The apply is not
// forced: the API server answers with a conflict if another manager owns a label. PutOn forces only the required label,
// which belongs to Pillion, and a label without an owner, unless its value has changed.
func (w Writer) PutOn(ctx context.Context, ns Namespace, changes []Change) error {
	applied := map[string]any{"labels": w.Rules.Applied(ns, changes)}
	err := w.patch(ctx, ns.Name, types.ApplyPatchType, applied, nil)
	if isOwnerConflict(err) && (isWithoutOwner(err) || len(changes) == 1 && changes[0].Key == v1alpha1.RequiredLabel) {
		return w.forceApply(ctx, ns.Name, applied, changes)
	}
	return err
}

// forceApply reads the namespace and makes the changes by a forced apply of that version. It makes none if a label
// has another value than its change expects. The last try accepts any version, so that a client that
// constantly writes the namespace does not prevent the label. A person who sets the label in that moment loses the
// value.
func (w Writer) forceApply(ctx context.Context, namespace string, applied map[string]any, changes []Change) error {
	for try := 1; ; try++ {
		now, err := w.Client.Resource(namespaces).Get(ctx, namespace, metav1.GetOptions{})
		if err != nil || slices.ContainsFunc(changes, func(c Change) bool { return now.Labels[c.Key] != c.From }) {
			return err // a changed value arrives in the cache, and queues the namespace again
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

// isOwnerConflict reports whether an apply failed because another manager owns a label.
func isOwnerConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// isWithoutOwner reports whether the labels of a conflict have no owner, because the managed fields of the namespace
// were reset.
func isWithoutOwner(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return !strings.Contains(c.Message, strconv.Quote(BeforeFirstApply))
	})
}

// TakeOff removes labels of one namespace. It uses a merge patch, because a label that a webhook set in another
// client's write has no owner. The patch requires the version of the namespace from which the changes were computed,
// so that a later value stays.
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
