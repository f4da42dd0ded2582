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

	"github.com/pillion-dev/pillion/templates"
)

// Writer writes labels of namespaces.
type Writer struct {
	Client metadata.Interface
	Rules  Rules
}

// PutOn makes the changes of one namespace that put labels on, by one server-side apply of all labels that Pillion
// owns there. The apply is not forced: the API server answers with a conflict if somebody else owns a label. Only
// the required label, which is Pillion's alone, and a label that nobody owns are taken, for the version that the
// changes are for.
func (w Writer) PutOn(ctx context.Context, ns Namespace, changes []Change) error {
	applied := map[string]any{"labels": w.Rules.Applied(ns, changes)}
	err := w.patch(ctx, ns.Name, types.ApplyPatchType, applied, nil)
	if isHeld(err) && (isNobodys(err) || len(changes) == 1 && changes[0].Key == templates.RequiredLabel(w.Rules.Prefix)) {
		applied["resourceVersion"] = ns.ResourceVersion
		return w.patch(ctx, ns.Name, types.ApplyPatchType, applied, new(true))
	}
	return err
}

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
// webhook put on in somebody's write has no owner, and for the version of the namespace that the changes are for:
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
	_, err = w.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, namespace, as, data, metav1.PatchOptions{FieldManager: FieldManager(w.Rules.Prefix), Force: force})
	return err
}
