package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

//go:generate go test . -run TestTheReferenceOfTheLibraryIsUpToDate -update

const libraryIntroduction = `# The library

This page is for admins who choose templates, and teams that use them.
It lists the templates inside Pillion's binary, each with a page of its own.
An admin serves some of them, and a namespace or a pod asks for them by name.
[Library settings](library-settings.md) has defaults for all, images from a mirror, and other injectors' annotations.

    helm upgrade pillion charts/pillion -n pillion-system --reset-then-reuse-values --set 'library={fluent-bit,vault-agent}'
    kubectl annotate namespace shop pillion.dev/inject=fluent-bit
    pillion params fluent-bit            # all parameters, with types, bounds and patterns
    pillion library show fluent-bit      # the manifest, to start a template of your own from

` + "`library` is the whole list: name those that you have, too.\nPod Security is the strictest standard that a restricted pod still meets with the template, with only the required parameters set.\n" +
	"All sidecars are native ones, so a Job with them finishes.\n" +
	"All are for Linux; a pod for Windows goes without ([operating systems](operating-systems.md)).\n" +
	"In one pod, `vault-agent` starts first, and `ca-bundle` and `environment` come last.\n\n" +
	"| name | purpose | required parameters | Pod Security | ports |\n| --- | --- | --- | --- | --- |\n"

// everySidecars are parameters that the page of the library explains once.
var everySidecars = []string{"image", "memory", "cpu", "cpu-limit"}

const libraryEnd = "\nMost templates with a sidecar also have `image`, which pods cannot set, `memory` (requested and at most), `cpu` (requested) and `cpu-limit` (none by default).\n"

// TestTheReferenceOfTheLibraryIsUpToDate holds what 'pillion library list' prints to the templates,
// docs/reference/library.md, and a page for each in docs/reference/library: its comment and its parameters.
func TestTheReferenceOfTheLibraryIsUpToDate(t *testing.T) {
	const command = "go generate ./cmd/pillion"
	var table, list strings.Builder
	columns := tabwriter.NewWriter(&list, 0, 4, 2, ' ', 0)
	fmt.Fprintln(columns, "NAME\tPOD SECURITY\tPORTS\tDESCRIPTION")
	for _, name := range charts.Names() {
		manifest, err := charts.Template(name)
		errtest.ExpectNone(t, err)
		template, err := manifests.LibraryTemplate(name, templates.Options{})
		errtest.ExpectNone(t, err)
		entry, err := describe(t.Context(), name)
		errtest.ExpectNone(t, err)
		comment, _, _ := strings.Cut(string(manifest), "apiVersion:")
		var page strings.Builder
		fmt.Fprintf(&page, "# %s\n\n%s\n\n", name, strings.ReplaceAll(strings.TrimSpace(commentMark.ReplaceAllString(comment, "")), "*", `\*`))
		needed, err := neededParameters(t.Context(), template)
		errtest.ExpectNone(t, err)
		var requirements []string
		for _, p := range template.Parameters() {
			key := strings.TrimPrefix(p.Annotation, name+"."+v1alpha1.Group+"/")
			if needed[p.Name] {
				requirements = append(requirements, "`"+key+"`")
			}
			if !slices.Contains(everySidecars, key) {
				writeLibraryParameter(&page, p, "`"+key+"`", needed[p.Name])
			}
		}
		transcript.Generated(t, "../../docs/reference/library/"+name+".md", command, page.String(), *update)
		ports := cmp.Or(strings.Join(entry.ports, ", "), "-")
		fmt.Fprintf(&table, "| [`%s`](library/%s.md) | %s | %s | %s | %s |\n", name, name, entry.description, strings.Join(requirements, " "), entry.podSecurity, ports)
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", name, entry.podSecurity, ports, entry.description)
	}
	errtest.ExpectNone(t, columns.Flush())
	if *update {
		errtest.ExpectNone(t, os.WriteFile("library.txt", []byte(list.String()), 0o644))
	} else if diff := gocmp.Diff(list.String(), libraryList); diff != "" {
		t.Errorf("library.txt differs from the templates; go generate ./cmd/pillion writes it (-want +got):\n%s", diff)
	}
	transcript.Generated(t, "../../docs/reference/library.md", command, libraryIntroduction+table.String()+libraryEnd, *update)
}

// libraryEntry is one template of the list.
type libraryEntry struct {
	description, podSecurity string
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
	t, err := manifests.LibraryTemplate(name, templates.Options{})
	if err != nil {
		return libraryEntry{}, err
	}
	needed, err := neededParameters(ctx, t)
	if err != nil {
		return libraryEntry{}, err
	}
	e := libraryEntry{description: t.Spec().Description}
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
	if e.podSecurity, err = podSecurity(&pod); err != nil {
		return e, err
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range c.Ports {
			e.ports = append(e.ports, fmt.Sprint(p.Name, " ", p.ContainerPort))
		}
	}
	return e, nil
}

// podSecurity returns the strictest Pod Security Standard that a pod keeps to, by Kubernetes' own checks.
func podSecurity(pod *corev1.Pod) (string, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return "", err
	}
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		results := evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec)
		if policy.AggregateCheckResults(results).Allowed {
			return string(level), nil
		}
	}
	return string(api.LevelPrivileged), nil
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
	namespace, own := map[string]string{v1alpha1.InjectKey: t.Name()}, map[string]any{}
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

// writeLibraryParameter writes an item with the meaning of a parameter and its default. Other bounds than
// an enumeration are left to 'pillion params'.
func writeLibraryParameter(b *strings.Builder, p templates.Parameter, key string, required bool) {
	var about []string
	if strings.HasPrefix(p.Allowed, "one of ") {
		about = append(about, strings.TrimPrefix(p.Allowed, "one of "))
	}
	switch {
	case required:
		about = append(about, "required")
	case len(p.Default) > 0:
		about = append(about, "default `"+explain.Text(p.Default)+"`")
	}
	if !slices.Contains(p.SetBy, v1alpha1.Pod) {
		about = append(about, "not set by pods")
	}
	bounds := ""
	if len(about) > 0 {
		bounds = " (" + strings.Join(about, "; ") + ")"
	}
	text := strings.TrimSuffix(strings.TrimSuffix(p.Description, "."), ". Required")
	description := strings.NewReplacer("*", `\*`, ". ", ".\n  ").Replace(text)
	fmt.Fprintf(b, "- %s%s: %s.\n", key, bounds, description)
}

var commentMark = regexp.MustCompile(`(?m)^# ?`)

func TestTheChartAcceptsTheNamesOfTheLibrary(t *testing.T) {
	var schema struct {
		Properties struct {
			Library struct {
				Items struct{ Enum []string }
			}
		}
	}
	readChart(t, "values.schema.json", &schema)
	if diff := gocmp.Diff(charts.Names(), schema.Properties.Library.Items.Enum); diff != "" {
		t.Errorf("the chart's names of library templates (-want +got):\n%s", diff)
	}
}
