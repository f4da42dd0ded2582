package rollout

import (
	"context"
	"fmt"
	"io"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// PromotedTemplate returns the stable template with the canary's spec. It returns an error if the canary is suspended
// or does not compile.
func PromotedTemplate(canary, stable *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	spec, _, _ := unstructured.NestedMap(canary.Object, "spec")
	own, _, _ := unstructured.NestedMap(stable.Object, "spec")
	result := stable.DeepCopy()
	result.Object["spec"] = templates.PromotedSpec(spec, own)
	name := canary.GetName()
	if suspended, _ := spec["suspend"].(bool); suspended {
		return nil, fmt.Errorf("the canary %s is suspended. Promote it after you have taken spec.suspend away: kubectl patch sidecartemplate %[1]s --type=merge -p '{\"spec\":{\"suspend\":false}}'", name)
	}
	if ready := readyCondition(canary); ready != nil && ready.Status == metav1.ConditionTrue {
		return result, nil
	} else if ready != nil {
		return nil, fmt.Errorf("the canary %s cannot be promoted: %s (%s)", name, ready.Message, ready.Reason)
	}
	for _, object := range []*unstructured.Unstructured{canary, result} {
		text, err := yaml.Marshal(map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "metadata": map[string]any{"name": object.GetName()}, "spec": object.Object["spec"]})
		if err == nil {
			// The error's lines are those of this text, and of no file.
			_, _, err = templates.Compile(text, templates.Options{Source: templates.ClusterSource + name})
		}
		if err != nil {
			return nil, fmt.Errorf("the canary %s cannot be promoted: %w", name, err)
		}
	}
	return result, nil
}

// readyCondition returns the condition Ready of a canary, nil if there is none for its newest generation.
func readyCondition(canary *unstructured.Unstructured) *metav1.Condition {
	var object v1alpha1.SidecarTemplate
	if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": canary.Object["status"]}, &object) != nil {
		return nil
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, store.Ready)
	if ready == nil || ready.ObservedGeneration != canary.GetGeneration() {
		return nil
	}
	return ready
}

// onlyStatusChanged reports whether nothing but the status of an object has changed since it was read, as
// Pillion itself writes it. The object gets the resourceVersion that it has now.
func onlyStatusChanged(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) bool {
	now, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil || now.GetUID() != object.GetUID() || now.GetGeneration() != object.GetGeneration() ||
		!maps.Equal(now.GetLabels(), object.GetLabels()) || !maps.Equal(now.GetAnnotations(), object.GetAnnotations()) {
		return false
	}
	object.SetResourceVersion(now.GetResourceVersion())
	return true
}

// ReleaseOf returns the name of the Helm release that an object is of, "" for none.
func ReleaseOf(object *unstructured.Unstructured) string {
	return object.GetAnnotations()["meta.helm.sh/release-name"]
}

// Promote updates the stable template, and deletes the canary. It writes a line about each to out.
func Promote(ctx context.Context, out io.Writer, client dynamic.ResourceInterface, canary, promoted *unstructured.Unstructured) error {
	name, of := canary.GetName(), promoted.GetName()
	for _, object := range []*unstructured.Unstructured{promoted, canary} {
		if release := ReleaseOf(object); release != "" {
			return fmt.Errorf("the SidecarTemplate %[1]s is of the Helm release %[2]s, whose next upgrade would take the change back: change the chart's value templates.%[1]s; pillion promote %[3]s -o yaml prints what %[4]s is to be", object.GetName(), release, name, of)
		}
	}
	const again = "run the same command again"
	delete(promoted.Object, "status")
	updated, err := client.Update(ctx, promoted, metav1.UpdateOptions{FieldManager: "pillion-promote"})
	for apierrors.IsConflict(err) && onlyStatusChanged(ctx, client, promoted) {
		updated, err = client.Update(ctx, promoted, metav1.UpdateOptions{FieldManager: "pillion-promote"})
	}
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("the SidecarTemplate %s was changed meanwhile, and nothing is written; %s: %w", of, again, err)
	case err != nil:
		return fmt.Errorf("giving the SidecarTemplate %s the spec of %s: %w", of, name, err)
	}
	fmt.Fprintf(out, "%s: has the spec of %s (generation %d)\n", of, name, updated.GetGeneration())
	deleted := func() error {
		uid, version := canary.GetUID(), canary.GetResourceVersion()
		return client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}
	err = deleted()
	for apierrors.IsConflict(err) && onlyStatusChanged(ctx, client, canary) {
		err = deleted()
	}
	switch {
	case apierrors.IsNotFound(err):
	case apierrors.IsConflict(err):
		return fmt.Errorf("the canary %s was changed meanwhile, and stays: look at it, and %s to promote what it is now: %w", name, again, err)
	case err != nil:
		return fmt.Errorf("deleting the canary %s, which the SidecarTemplate %s is the same as now: %w", name, of, err)
	}
	fmt.Fprintf(out, "%s: deleted\n", name)
	return nil
}
