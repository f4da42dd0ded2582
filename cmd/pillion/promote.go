package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// promoteCommand has the flags of the command.
type promoteCommand struct {
	where     inspect.Place
	templates []string
	output    string
}

func newPromoteCommand() *cobra.Command {
	var p promoteCommand
	cmd := &cobra.Command{
		Use:   "promote CANARY",
		Short: "Give a template the spec of its canary",
		Long: `Promote gives the stable template the spec of its canary, and deletes the
canary. The stable template keeps its own match, availableTo, required,
injectByDefault, order, suspend and exceptions. New pods then get what the
canary's pods have; 'pillion rollout' brings the others along. If somebody
changes one of the two meanwhile, promote says so, and the same command goes on
where it stopped.

With -o yaml promote writes nothing: it prints the stable template to commit.
With --templates as well it reads files and no cluster.

A canary that does not compile, or is suspended, is not promoted. Templates of a
Helm release are changed in the chart's values: promote names the value.`,
		Example: `  pillion promote fluent-bit-next
  pillion promote fluent-bit-next -o yaml --templates templates/`,
		Args:              oneArg("promote takes the name of one canary"),
		RunE:              p.run,
		ValidArgsFunction: first(completeTemplates),
	}
	f := cmd.Flags()
	placeFlags(f, &p.where)
	f.StringSliceVar(&p.templates, "templates", nil, "with -o yaml: read SidecarTemplates from this file or directory, and from no cluster (repeatable)")
	outputFlag(f, &p.output, "", "yaml or json: print the stable template, and write nothing", "yaml", "json")
	return cmd
}

func (p *promoteCommand) run(cmd *cobra.Command, args []string) error {
	if len(p.templates) > 0 && p.output == "" {
		return usageError{Err: errors.New("--templates reads files, and promote changes none: add -o yaml to print the template")}
	}
	get, client, err := p.source()
	if err != nil {
		return err
	}
	canary, err := get(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	of, _, _ := unstructured.NestedString(canary.Object, "spec", "canary", "of")
	if of == "" {
		return fmt.Errorf("the template %s is no canary: it has no spec.canary.of", args[0])
	}
	stable, err := get(cmd.Context(), of)
	if err != nil {
		return fmt.Errorf("reading the stable template of %s: %w", args[0], err)
	}
	if _, is, _ := unstructured.NestedMap(stable.Object, "spec", "canary"); is {
		return fmt.Errorf("the template %s is a canary itself, so %s cannot be promoted to it", of, args[0])
	}
	promoted, err := p.promoted(canary, stable)
	if err != nil {
		return err
	}
	if p.output != "" {
		return p.print(cmd.OutOrStdout(), promoted)
	}
	return p.write(cmd.Context(), cmd.OutOrStdout(), client, canary, promoted)
}

// getTemplate reads a SidecarTemplate.
type getTemplate func(ctx context.Context, name string) (*unstructured.Unstructured, error)

// source returns how templates are read, and the client of the cluster's, nil for files.
func (p *promoteCommand) source() (getTemplate, dynamic.ResourceInterface, error) {
	if len(p.templates) > 0 {
		return p.fromFiles, nil, nil
	}
	cluster, err := openCluster(p.where)
	if err != nil {
		return nil, nil, err
	}
	client := cluster.Objects.Resource(store.Resource)
	return func(ctx context.Context, name string) (*unstructured.Unstructured, error) {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("the cluster has no SidecarTemplate %s: %w", name, err)
		}
		return object, err
	}, client, nil
}

// fromFiles reads a template of the files, or of the library.
func (p *promoteCommand) fromFiles(_ context.Context, name string) (*unstructured.Unstructured, error) {
	for _, path := range p.templates {
		manifests, err := readManifests(path)
		if err != nil {
			return nil, err
		}
		for _, m := range manifests {
			if object, err := objectOf(m.Manifest); err == nil && object.GetKind() == v1alpha1.Kind && object.GetName() == name {
				return object, nil
			}
		}
	}
	text, err := charts.Template(name)
	if err != nil {
		return nil, fmt.Errorf("there is no template %s in %s: %w", name, strings.Join(p.templates, ", "), err)
	}
	return objectOf(text)
}

func objectOf(text []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		return nil, err
	}
	return object, nil
}

// promoted returns the stable template with the canary's spec. It returns an error if that cannot
// be, or should not.
func (p *promoteCommand) promoted(canary, stable *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
			// Lines are those of a text that nobody has.
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

// releaseOf returns the name of the Helm release that an object is of, "" for none.
func releaseOf(object *unstructured.Unstructured) string {
	return object.GetAnnotations()["meta.helm.sh/release-name"]
}

// write updates the stable template, and deletes the canary.
func (p *promoteCommand) write(ctx context.Context, out io.Writer, client dynamic.ResourceInterface, canary, promoted *unstructured.Unstructured) error {
	name, of := canary.GetName(), promoted.GetName()
	for _, object := range []*unstructured.Unstructured{promoted, canary} {
		if release := releaseOf(object); release != "" {
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
	fmt.Fprintf(out, "%s: deleted\nRunning pods stay as they are; to bring them along: pillion rollout sct/%s --dry-run%s\n", name, of, p.where.Args())
	return nil
}

// print writes the template as it is to be committed: without what the API server and tools
// keep in it.
func (p *promoteCommand) print(out io.Writer, object *unstructured.Unstructured) error {
	metadata := map[string]any{"name": object.GetName()}
	annotations, labels := object.GetAnnotations(), object.GetLabels()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	inRelease := releaseOf(object) != "" // its labels and annotations are the chart's
	if !inRelease && len(labels) > 0 {
		metadata["labels"] = labels
	}
	if !inRelease && len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	printed := map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "metadata": metadata, "spec": object.Object["spec"]}
	if p.output == "json" {
		return show.JSON(out, printed)
	}
	text, err := yaml.Marshal(printed)
	if err != nil {
		return fmt.Errorf("writing the template %s: %w", object.GetName(), err)
	}
	_, err = out.Write(text)
	return err
}
