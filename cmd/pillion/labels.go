package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/injector/keeper"
	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/injector/namespaces"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/live"
)

// keptLabels returns the labels that Pillion keeps on namespaces. The function says whether
// it enforces.
func keptLabels(c serveConfig, enforcement func() kept.Enforcement) kept.Labels {
	list := []kept.Label{kept.Injection(c.AnnotationPrefix, enforcement)}
	if c.KeepRequiredLabel {
		list = append(list, kept.Required(c.AnnotationPrefix))
	}
	return kept.New(c.ExcludedNamespaces, list...)
}

// newKeeper returns the keeper of the labels. It hears of changes of templates and
// namespaces, and tells held of labels that it cannot write because of their owner.
func newKeeper(prefix string, labels kept.Labels, held func(namespace, label string, err error), config *rest.Config, client clientset.Interface, set *live.Templates, ns *namespaces.Informer, ready func() error, log *slog.Logger) (*keeper.Keeper, error) {
	// Its writes are as many as the keeper lets through. With a client of its own they keep
	// no live read of a namespace waiting.
	config = rest.CopyConfig(config)
	config.QPS = -1
	writer, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the labels of namespaces: %w", err)
	}
	k := keeper.New(keeper.Options{
		Labels: labels, Templates: set.Snapshot, Namespaces: namespaces.Labelled{Informer: ns}, Ready: ready, Logger: log,
		Write: labelWriter{writer, labels, kept.FieldManager(prefix)}.write, Held: held,
		MayPatch: func(ctx context.Context) (bool, error) {
			return permitted(ctx, client, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "namespaces"})
		},
	})
	set.OnChange(func(*templates.Set) { k.Changed() })
	ns.OnChange(k.NamespaceChanged)
	return k, nil
}

// labelHeld says what to do about a label that Pillion cannot write.
func labelHeld(namespace, label string, err error) string {
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Sprintf("Pillion cannot write the label %s: %v. It goes on trying. Where the namespace is too large, take labels and annotations off that it does not need: kubectl label namespace %s KEY-", label, err, namespace)
	}
	return fmt.Sprintf("Pillion cannot change the label %s, because somebody else owns it: %v. Whoever may update namespaces/injection can free it: kubectl label namespace %s %s-", label, err, namespace, label)
}

// labelWriter writes labels of namespaces.
type labelWriter struct {
	client metadata.Interface
	labels kept.Labels
	// manager is the field manager of all writes.
	manager string
}

// triesAtOnce is how often labels are put on at once where each time somebody else's write of the
// namespace came first.
const triesAtOnce = 10

// triesForVersion is how many of these are for the version that was read, where the write takes the
// label whoever owns it.
const triesForVersion = 3

// write makes the changes of one namespace: labels are put on by one server-side apply of all
// that Pillion owns there, and taken off by a merge patch, since what a webhook put on in
// somebody's write nobody owns. Both are for the version of the namespace that the changes are
// for: a value that somebody set since stays.
func (w labelWriter) write(ctx context.Context, ns kept.Namespace, changes []kept.Change) error {
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
// since, they are made all the same: who writes it all the time does not keep them away.
func (w labelWriter) putOn(ctx context.Context, ns kept.Namespace, changes []kept.Change) (*metav1.PartialObjectMetadata, error) {
	at := metav1.ObjectMeta{ResourceVersion: ns.ResourceVersion}
	for try := 1; ; try++ {
		owned, force := w.labels.Applied(ns, changes)
		// Without force whoever owns a label by now keeps it. With force, in a namespace whose managed
		// fields name nobody, a hand may lose that set the label since it was read just now.
		if at.UID != "" && (!force || try > triesForVersion) {
			at.ResourceVersion = ""
		}
		after, err := w.patch(ctx, ns.Name, types.ApplyPatchType, at, owned, &force)
		if !apierrors.IsConflict(err) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || try == triesAtOnce {
			return after, err
		}
		now, unread := w.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, ns.Name, metav1.GetOptions{})
		if unread != nil || !w.same(ns, now) {
			return nil, err // the cache hears of it
		}
		ns.Unowned, at = kept.Unowned(now), metav1.ObjectMeta{UID: now.UID, ResourceVersion: now.ResourceVersion}
	}
}

// same reports whether the labels that Pillion keeps, and whose they are, are as they were.
func (w labelWriter) same(was kept.Namespace, now metav1.Object) bool {
	keys := w.labels.Keys()
	return now.GetDeletionTimestamp() == nil && slices.Equal(kept.ByHand(now, keys), was.ByHand) && !slices.ContainsFunc(keys, func(key string) bool {
		value, there := now.GetLabels()[key]
		before, was := was.Labels[key]
		return value != before || there != was
	})
}

// patch returns the namespace as it is after the write. The write fails if the namespace is not,
// or no more, the one that at names by version or UID.
func (w labelWriter) patch(ctx context.Context, namespace string, as types.PatchType, at metav1.ObjectMeta, labels any, force *bool) (*metav1.PartialObjectMetadata, error) {
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
	return w.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, namespace, as, data, metav1.PatchOptions{FieldManager: w.manager, Force: force})
}

// permitted reports whether this process has a right.
func permitted(ctx context.Context, client clientset.Interface, to authorizationv1.ResourceAttributes) (bool, error) {
	review, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &to},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the API server for the permission to %s %s: %w", to.Verb, to.Resource, err)
	}
	return review.Status.Allowed, nil
}
