package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/offline/apirules"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

func newLibraryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "library",
		Short: "Show the templates that come with Pillion",
		Args:  subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the templates",
		Example: `  pillion library list`,
		Long: `List the templates with their Pod Security Standard and the ports that they add.
The standard is the strictest one that a restricted pod still meets after
injection with only the required parameters set.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var entries []libraryEntry
			for _, name := range library.Names() {
				e, err := describe(cmd.Context(), name)
				if err != nil {
					return fmt.Errorf("describing the library's template %s: %w", name, err)
				}
				entries = append(entries, e)
			}
			return writeLibrary(cmd.OutOrStdout(), entries)
		},
	}
	cmd.AddCommand(list, &cobra.Command{
		Use:     "show NAME",
		Short:   "Print a template's manifest",
		Example: `  pillion library show fluent-bit`,
		Args:    oneArg("library show takes one template name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			manifest, err := library.Get(args[0], nil)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(manifest)
			return err
		},
	})
	return cmd
}

func libraryTemplate(name string, o templates.Options) (*templates.Template, error) {
	manifest, err := library.Get(name, o.Values)
	if err != nil {
		return nil, err
	}
	o.Source = "library/" + name
	t, _, err := templates.Compile(manifest, o)
	return t, err
}

// libraryEntry is one template of the list.
type libraryEntry struct {
	name, description, podSecurity string
	// ports are the declared ports of the template's containers, as NAME NUMBER.
	ports []string
}

// restrictedPod meets the restricted Pod Security Standard.
const restrictedPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
	"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
	"containers": [{"name": "web", "image": "web", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`

// describe injects a template into a restricted pod, with what it needs set to examples,
// and describes the resulting pod.
func describe(ctx context.Context, name string) (libraryEntry, error) {
	t, err := libraryTemplate(name, templates.Options{})
	if err != nil {
		return libraryEntry{}, err
	}
	needed, err := neededParameters(ctx, t)
	if err != nil {
		return libraryEntry{}, err
	}
	e := libraryEntry{name: name, description: t.Spec().Description}
	out, err := injectExamples(ctx, t, func(p templates.Parameter) bool { return needed[p.Name] })
	if err != nil {
		return e, err
	}
	if !out.Allowed {
		return e, fmt.Errorf("injecting it with the examples of its parameters: %s", out.Message)
	}
	data, err := json.Marshal(out.Pod)
	if err != nil {
		return e, err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(data, &pod); err != nil {
		return e, fmt.Errorf("reading the pod: %w", err)
	}
	level, _ := apirules.PodSecurity(&pod)
	e.podSecurity = string(level)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range c.Ports {
			e.ports = append(e.ports, fmt.Sprint(p.Name, " ", p.ContainerPort))
		}
	}
	return e, nil
}

// neededParameters are the names of the parameters without which the template refuses a pod
// that has no annotations of others: those that it declares required, and those that its
// validations ask for.
func neededParameters(ctx context.Context, t *templates.Template) (map[string]bool, error) {
	needed := map[string]bool{}
	for _, p := range t.Parameters() {
		switch {
		case p.Default != nil:
		case p.Required:
			needed[p.Name] = true
		default:
			out, err := injectExamples(ctx, t, func(q templates.Parameter) bool { return q.Name != p.Name })
			if err != nil {
				return nil, err
			}
			needed[p.Name] = !out.Allowed
		}
	}
	return needed, nil
}

// injectExamples injects the template into a restricted pod. The parameters without a
// default that set chooses have their examples.
func injectExamples(ctx context.Context, t *templates.Template, set func(templates.Parameter) bool) (injector.Outcome, error) {
	namespace, own := map[string]string{templates.InjectKey(""): t.Name()}, map[string]any{}
	for _, p := range t.Parameters() {
		if p.Default != nil || !set(p) {
			continue
		}
		if slices.Contains(p.SetBy, v1alpha1.Namespace) {
			maps.Copy(namespace, examples(p))
			continue
		}
		for key, value := range examples(p) {
			own[key] = value
		}
	}
	pod, err := injector.DecodePod([]byte(restrictedPod))
	if err != nil {
		return injector.Outcome{}, err
	}
	pod["metadata"].(map[string]any)["annotations"] = own
	return injector.NewPipeline(injector.Config{}).Inject(ctx, injector.Request{
		Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "default", Annotations: namespace},
		Templates: templates.NewSet([]templates.Entry{{Name: t.Name(), Template: t}}),
	})
}

// examples returns the annotations that set a parameter to its example.
func examples(p templates.Parameter) map[string]string {
	var entries map[string]json.RawMessage
	if p.Type != v1alpha1.Map || json.Unmarshal(p.Example, &entries) != nil {
		return map[string]string{p.Annotation: explain.Text(p.Example)}
	}
	annotations := map[string]string{}
	for key, value := range entries {
		annotations[strings.TrimSuffix(p.Annotation, "KEY")+key] = explain.Text(value)
	}
	return annotations
}

func writeLibrary(w io.Writer, entries []libraryEntry) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tPOD SECURITY\tPORTS\tDESCRIPTION")
	for _, e := range entries {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", e.name, e.podSecurity, cmp.Or(strings.Join(e.ports, ", "), "-"), e.description)
	}
	return t.Flush()
}
