package main

import (
	"context"
	"encoding/json"
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
	k := keeper.New(keeper.Options{
		Labels: labels, Templates: set.Snapshot, Namespaces: namespaces.Labelled{Informer: ns}, Ready: ready, Logger: log,
		Write: labelWriter{writer}.write,
		MayPatch: func(ctx context.Context) (bool, error) {
			return permitted(ctx, client, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "namespaces"})
		},
	})
	set.OnChange(func(*templates.Set) { k.Changed() })
	ns.OnChange(k.NamespaceChanged)
	return k, nil
}

// labelWriter writes labels of namespaces.
type labelWriter struct{ client metadata.Interface }

// write makes one change. Its requests name no label but this one.
func (w labelWriter) write(ctx context.Context, namespace string, change kept.Change) error {
	manager := kept.FieldManager(change.Key)
	switch {
	case !change.Applied && change.TakesOff():
		return w.patch(ctx, manager, namespace, types.MergePatchType, map[string]any{change.Key: nil})
	case !change.Applied:
		return w.patch(ctx, manager, namespace, types.MergePatchType, map[string]any{change.Key: change.Value})
	case !change.TakesOff():
		return w.patch(ctx, manager, namespace, types.ApplyPatchType, map[string]any{change.Key: change.Value})
	}
	// What a webhook put on in somebody's write nobody owns, and only what it owns can a field
	// manager take off.
	if err := w.patch(ctx, manager, namespace, types.ApplyPatchType, map[string]any{change.Key: change.From}); err != nil {
		return err
	}
	return w.patch(ctx, manager, namespace, types.ApplyPatchType, map[string]any{})
}

func (w labelWriter) patch(ctx context.Context, manager, namespace string, as types.PatchType, labels map[string]any) error {
	object := map[string]any{"metadata": map[string]any{"labels": labels}}
	if as == types.ApplyPatchType {
		object["apiVersion"], object["kind"] = "v1", "Namespace"
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = w.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, namespace, as, data, metav1.PatchOptions{FieldManager: manager})
	return err
}
