package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	syaml "sigs.k8s.io/yaml"
)

// attackCase is a case of testdata/attacks/cases.yaml.
type attackCase struct {
	Case  string           `json:"case"`
	Own   []map[string]any `json:"own"`
	Pod   map[string]any   `json:"pod"`
	Image string           `json:"image"`
	Says  string           `json:"says"`
}

// Whoever has the role edit in a namespace, and nothing else, tries to run a pod there without what a required
// template wants.
func TestNoRightsInANamespaceWeakenARequiredTemplate(t *testing.T) {
	t.Parallel()
	file := func(name string, pairs ...string) string {
		text, err := os.ReadFile("testdata/attacks/" + name)
		expectNoError(t, err)
		return strings.NewReplacer(pairs...).Replace(string(text))
	}
	team := unique("team")
	m := manifest{name: unique("audit"), spec: "\n" + file("required.yaml", "TEAM", team)}
	m.apply(t)
	manifest{name: unique("next"), spec: "\n" + file("canary.yaml", "NAME", m.name)}.apply(t)
	labels := map[string]string{"team": team}
	waitRequired(t, labels)
	clean := newNamespace(t, nil, labels)
	injects(t, clean, m.name)
	want, err := clean.preview(t, newPod("web", nil))
	expectNoError(t, err)
	var cases []attackCase
	declared := `{name: NAME, image: "registry.example.com/NAME:1", restartPolicy: Always, env: [{name: MODE, value: strict}], volumeMounts: [{name: NAME-conf, mountPath: /conf}]}`
	text := file("cases.yaml", "DECLARED", declared, "CONF", "{name: NAME-conf, projected: {sources: [{configMap: {name: audit-conf}}]}}")
	expectNoError(t, syaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "NAME", m.name)), &cases))
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			t.Parallel()
			c.try(t, newNamespace(t, nil, labels), m.name, want)
		})
	}
}

// try makes the attempt in a namespace. Want is a pod that nobody attacked.
func (c attackCase) try(t *testing.T, n *namespace, template string, want *corev1.Pod) {
	user := "edit-" + n.name
	must(t, "", "kubectl", "create", "rolebinding", "edit", "-n", n.name, "--clusterrole=edit", "--user="+user)
	as := func(object any, args ...string) (string, error) {
		text, err := json.Marshal(object)
		expectNoError(t, err)
		stdout, _, err := run(t, string(text), "kubectl", append(args, "-n", n.name, "--as="+user)...)
		return stdout, err
	}
	for i, spec := range c.Own {
		name := fmt.Sprint("own-", i)
		eventually(t, soon, func() error { // roles are aggregated
			_, err := as(map[string]any{"apiVersion": "pillion.dev/v1alpha1", "kind": "NamespacedSidecarTemplate", "metadata": map[string]any{"name": name}, "spec": spec}, "apply", "-f", "-")
			return err
		})
		n.waitReady(t, name, "Compiled")
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "nginx"}}}}
	for section, fields := range c.Pod {
		maps.Copy(pod[section].(map[string]any), fields.(map[string]any))
	}
	if c.Image == "" {
		eventually(t, soon, func() error { // replicas have the templates
			out, err := as(pod, "create", "--dry-run=server", "-o", "json", "-f", "-")
			return c.wrong(out, err, template, want)
		})
		return
	}
	_, err := as(pod, "create", "-f", "-")
	expectNoError(t, err)
	_, err = as(nil, "patch", "pod", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/containers/0/image","value":"`+c.Image+`"}]`)
	expectNoError(t, c.wrong("", err, template, want))
}

// wrong compares an answer with the one that the case wants.
func (c attackCase) wrong(out string, err error, template string, want *corev1.Pod) error {
	switch {
	case err == nil && c.Says != "":
		return fmt.Errorf("it is not refused: %s", out)
	case err != nil && (c.Says == "" || !strings.Contains(err.Error(), c.Says)):
		return fmt.Errorf("it is refused with %w, want %q", err, c.Says)
	case err != nil:
		return nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(out), &pod); err != nil {
		return err
	}
	if len(c.Own) > 0 && pod.Annotations["seen"] != "yes" {
		return fmt.Errorf("the namespace's template is not in force yet")
	}
	if is, should := ownFields(&pod, template), ownFields(want, template); !equality.Semantic.DeepEqual(is, should) {
		return fmt.Errorf("the sidecar is %s, want %s", pretty(is), pretty(should))
	}
	return nil
}

// ownFields is a sidecar without the mount of the token, whose volume has another name in each pod.
func ownFields(pod *corev1.Pod, name string) *corev1.Container {
	container := sidecar(pod, name).DeepCopy()
	if container != nil {
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, "kube-api-access-") })
	}
	return container
}
