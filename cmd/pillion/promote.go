package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/rollout"
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
	promoted, err := rollout.PromotedTemplate(canary, stable)
	if err != nil {
		return err
	}
	if p.output != "" {
		return p.print(cmd.OutOrStdout(), promoted)
	}
	if err := rollout.Promote(cmd.Context(), cmd.OutOrStdout(), client, canary, promoted); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Running pods stay as they are; to bring them along: pillion rollout sct/%s --dry-run%s\n", of, p.where.Args())
	return nil
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
		files, err := manifests.ReadTemplates(path)
		if err != nil {
			return nil, err
		}
		for _, m := range files {
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

// print writes the template for a commit: without the fields that the API server and tools write.
func (p *promoteCommand) print(out io.Writer, object *unstructured.Unstructured) error {
	metadata := map[string]any{"name": object.GetName()}
	annotations, labels := object.GetAnnotations(), object.GetLabels()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	inRelease := rollout.ReleaseOf(object) != "" // its labels and annotations are the chart's
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
