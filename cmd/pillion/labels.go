package main

import (
	"context"
	"fmt"
	"log/slog"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
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

// labelManager owns the labels in the managed fields of a namespace.
const labelManager = "pillion"

// keptLabels returns the labels that Pillion keeps on namespaces.
func keptLabels(c serveConfig) kept.Labels {
	var list []kept.Label
	if c.KeepRequiredLabel {
		list = append(list, kept.Required(c.AnnotationPrefix))
	}
	return kept.New(c.ExcludedNamespaces, list...)
}

// newKeeper returns the keeper of the labels. It hears of changes of templates and
// namespaces.
func newKeeper(labels kept.Labels, config *rest.Config, client clientset.Interface, set *live.Templates, ns *namespaces.Informer, ready func() error, log *slog.Logger) (*keeper.Keeper, error) {
	// Its writes are as many as the keeper lets through. With a client of its own they keep
	// no live read of a namespace waiting.
	config = rest.CopyConfig(config)
	config.QPS = -1
	writer, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the labels of namespaces: %w", err)
	}
	resource := writer.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	k := keeper.New(keeper.Options{
		Labels: labels, Templates: set.Snapshot, Namespaces: ns, Ready: ready, Logger: log,
		Patch: func(ctx context.Context, namespace string, patch []byte) error {
			_, err := resource.Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: labelManager})
			return err
		},
		MayPatch: func(ctx context.Context) (bool, error) {
			review, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "namespaces"}},
			}, metav1.CreateOptions{})
			if err != nil {
				return false, fmt.Errorf("asking the API server for the permission to patch namespaces: %w", err)
			}
			return review.Status.Allowed, nil
		},
	})
	set.OnChange(func(*templates.Set) { k.TemplatesChanged() })
	return k, ns.OnChange(k.NamespaceChanged)
}
