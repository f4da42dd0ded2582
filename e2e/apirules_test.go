package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
)

// ruleCase is a fragment of a template, with what is said of it at kubectl apply and by lint --server.
type ruleCase struct {
	Name                      string
	Fragment, Pod             map[string]any
	Refused, With, Unanswered string
}

// fromYAML reads YAML of the tests.
func fromYAML(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	expectNoError(t, err)
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func asYAML(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	expectNoError(t, err)
	return string(text)
}

// What no pod may have, the API server says when a template is applied, in terms of the template.
func TestATemplateThatNoPodMayHaveIsRefusedWithTheAPIServersOwnWords(t *testing.T) {
	t.Parallel()
	var cases []ruleCase
	fromYAML(t, "testdata/apirules.yaml", &cases)
	n := newNamespace(t, nil, nil)
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("rules-%d", i)
			template := asYAML(t, map[string]any{
				"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": name}, "spec": map[string]any{"inject": c.Fragment},
			})
			pod := inFile(t, "pod.yaml", asYAML(t, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": c.Pod}))
			says := func(want, input, tool string, args ...string) {
				t.Helper()
				err := attempt(t, input, tool, args...)
				if want != "" {
					err = refusedWith(err, want)
				}
				wantNoError(t, err, tool)
			}
			want := ""
			if c.Refused != "" {
				want = "template " + name + ": " + guardWords(c.Refused)
			}
			says(want, template, "kubectl", "apply", "--dry-run=server", "-f", "-")
			file := inFile(t, "template.yaml", template)
			says(c.Refused+c.Unanswered, "", "pillion", "lint", "--server", "-n", n.name, file)
			says(strings.ReplaceAll(c.Refused+c.Unanswered+c.With, "FILE", pod), "", "pillion", "lint", "--server", "-n", n.name, file, "--pod", pod)
		})
	}
}

// guardWords are those of the guard for what lint --server says.
func guardWords(said string) string {
	path, rest, _ := strings.Cut(said, ": ")
	return path + ": the API server refuses pods that get this: " + rest
}

// brokenPod is a pod with one mistake, at a field.
type brokenPod struct {
	Field                     string
	Metadata, Spec, Container map[string]any
}

// The tables of lint and of the schema are a small part of the API's rules, and no line of them may be wrong.
func TestTheAPIServerRefusesWhatTheTablesDo(t *testing.T) {
	t.Parallel()
	var cases, scalars []brokenPod
	fromYAML(t, checkout.Path("lint", "testdata", "pods.yaml"), &cases)
	fromYAML(t, checkout.Path("templates", "podschema", "testdata", "scalars.yaml"), &scalars)
	cases = append(cases, scalars...)
	n := newNamespace(t, nil, nil)
	for _, c := range cases {
		container := map[string]any{"name": "app", "image": "a:1"}
		maps.Copy(container, c.Container)
		spec := map[string]any{"containers": []any{container}}
		maps.Copy(spec, c.Spec)
		metadata := map[string]any{"name": "p"}
		maps.Copy(metadata, c.Metadata)
		raw, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
		expectNoError(t, err)
		var pod corev1.Pod
		expectNoError(t, json.Unmarshal(raw, &pod))
		if _, err = n.preview(t, &pod); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", c.Field, err)
		}
	}
}
