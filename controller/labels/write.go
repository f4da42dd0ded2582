package labels

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

const (
	// triesAtOnce is how often labels are put on at once where each time somebody else's write of
	// the namespace came first.
	triesAtOnce = 10
	// triesForVersion is how many of these are for the version that was read, where the write
	// takes the label whoever owns it.
	triesForVersion = 3
)

// Writer writes labels of namespaces.
type Writer struct {
	Client metadata.Interface
	Rules  Rules
}

// Write makes the changes of one namespace: labels are put on by one server-side apply of all
// that Pillion owns there, and taken off by a merge patch, since a label that a webhook put on in
// somebody's write has no owner. Both are for the version of the namespace that the changes are
// for: a value that somebody set since stays.
func (w Writer) Write(ctx context.Context, ns Namespace, changes []Change) error {
	off, at := map[string]any{}, metav1.ObjectMeta{ResourceVersion: ns.ResourceVersion}
	for _, c := range changes {
		if c.TakesOff() {
			off[c.Key] = nil
		}
	}
	if len(off) < len(changes) {
		after, err := w.putOn(ctx, ns, changes)
		if err != nil || len(off) == 0 {
			return err
		}
		at.ResourceVersion = after.ResourceVersion
	}
	_, err := w.patch(ctx, ns.Name, types.MergePatchType, at, off, nil)
	return err
}

// putOn makes the changes that put labels on. Where something else of the namespace has changed
// since, they are made all the same: whoever writes the namespace all the time does not keep them
// away.
func (w Writer) putOn(ctx context.Context, ns Namespace, changes []Change) (*metav1.PartialObjectMetadata, error) {
	at := metav1.ObjectMeta{ResourceVersion: ns.ResourceVersion}
	for try := 1; ; try++ {
		owned, force := w.Rules.Applied(ns, changes)
		// Without force whoever owns a label by now keeps it. With force, in a namespace whose managed
		// fields name nobody, a hand may lose that set the label since it was read just now.
		if at.UID != "" && (!force || try > triesForVersion) {
			at.ResourceVersion = ""
		}
		after, err := w.patch(ctx, ns.Name, types.ApplyPatchType, at, owned, &force)
		if !apierrors.IsConflict(err) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || try == triesAtOnce {
			return after, err
		}
		now, unread := w.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, ns.Name, metav1.GetOptions{})
		if unread != nil || !w.same(ns, now) {
			return nil, err // the cache hears of it
		}
		ns.Unowned, at = Unowned(now), metav1.ObjectMeta{UID: now.UID, ResourceVersion: now.ResourceVersion}
	}
}

// same reports whether the managed labels, and their owners, are as they were.
func (w Writer) same(was Namespace, now metav1.Object) bool {
	keys := w.Rules.Keys()
	return now.GetDeletionTimestamp() == nil && slices.Equal(ByHand(now, keys), was.ByHand) && !slices.ContainsFunc(keys, func(key string) bool {
		value, there := now.GetLabels()[key]
		before, was := was.Labels[key]
		return value != before || there != was
	})
}

// patch returns the namespace as it is after the write. The write fails if the namespace is not,
// or no more, the one that at names by version or UID.
func (w Writer) patch(ctx context.Context, namespace string, as types.PatchType, at metav1.ObjectMeta, labels any, force *bool) (*metav1.PartialObjectMetadata, error) {
	metadata := map[string]any{"labels": labels}
	if at.ResourceVersion != "" {
		metadata["resourceVersion"] = at.ResourceVersion
	}
	if at.UID != "" {
		metadata["uid"] = at.UID
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
	if err != nil {
		return nil, err
	}
	return w.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, namespace, as, data, metav1.PatchOptions{FieldManager: FieldManager(w.Rules.Prefix), Force: force})
}
