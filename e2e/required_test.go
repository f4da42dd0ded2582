package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// newRequired applies a template that namespaces with the returned label cannot opt out
// of, and returns one of them.
func newRequired(t *testing.T, labels map[string]string) (m manifest, n *namespace) {
	t.Helper()
	team := unique("team")
	m = manifest{name: unique("audit"), spec: fmt.Sprintf(`
required: true
match: {namespaceSelector: {matchLabels: {team: %s}}}
verify: {images: ["mirror.example.com/*", "registry.example.com/NAME:1"]}`, team) + sidecarSpec}
	m.apply(t)
	all := map[string]string{"team": team}
	for key, value := range labels {
		all[key] = value
	}
	n = newNamespace(t, nil, all)
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("probe", nil))
		if err == nil && sidecar(pod, m.name) == nil {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
	return m, n
}

func TestPodsCannotOptOutOfARequiredTemplate(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, nil)
	for i, annotations := range []map[string]string{asking("false"), asking("-" + m.name), asking("fluent-bit")} {
		if got := n.mustCreate(t, newPod(fmt.Sprint("web-", i), annotations)); sidecar(got, m.name) == nil {
			t.Errorf("a pod that says %v has the containers %s", annotations, containerNames(got))
		}
	}
	set := newPod("set", map[string]string{m.name + ".pillion.dev/log-level": "debug"})
	if _, err := n.create(t, set); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may be set by nobody") {
		t.Errorf("a parameter of a required template that a pod sets: %v", err)
	}
	if _, stderr, err := run(t, "", "kubectl", "delete", "sidecartemplate", m.name); err == nil || !strings.Contains(stderr, "it is required") {
		t.Errorf("its deletion: %v\n%s", err, stderr)
	}
}

func TestAPodThatEvadesARequiredTemplateIsRefused(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, enforced())
	good := n.mustCreate(t, newPod("good", nil))
	forged := func(change func(*corev1.Container)) *corev1.Pod {
		pod := newPod("forged", map[string]string{statusAnnotation: good.Annotations[statusAnnotation]})
		pod.Spec = *good.Spec.DeepCopy()
		pod.Spec.NodeName = ""
		change(&pod.Spec.InitContainers[0])
		return pod
	}
	for why, c := range map[string]struct {
		change func(*corev1.Container)
		says   string
	}{
		"another image":   {func(c *corev1.Container) { c.Image = "evil:1" }, "evil:1"},
		"another command": {func(c *corev1.Container) { c.Command = []string{"sleep"} }, "command"},
		"less memory": {func(c *corev1.Container) {
			c.Resources.Limits["memory"] = resource.MustParse("1Mi")
			c.Resources.Requests = nil
		}, "memory"},
		"nothing but what it does": {func(*corev1.Container) {}, ""},
		"an accepted mirror":       {func(c *corev1.Container) { c.Image = "mirror.example.com/" + m.name + ":2" }, ""},
	} {
		_, err := n.preview(t, forged(c.change))
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", why, err)
			}
			continue
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), m.name) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestARequiredSidecarKeepsItsImageAndResources(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, nil)
	pod := n.mustCreate(t, newPod("web", nil))
	patch := func(subresource string, value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var sub []string
		if subresource != "" {
			sub = []string{subresource}
		}
		_, err = n.client.CoreV1().Pods(n.name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, sub...)
		return err
	}
	images := func(list, name, image string) any {
		return map[string]any{"spec": map[string]any{list: []any{map[string]any{"name": name, "image": image}}}}
	}
	if err := patch("", images("containers", "app", "nginx:1.30")); err != nil {
		t.Errorf("another image of the app: %v", err)
	}
	if err := patch("", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{statusAnnotation: nil}}}); err != nil {
		t.Errorf("other metadata: %v", err)
	}
	if err := patch("", images("initContainers", m.name, "mirror.example.com/x:1")); err != nil {
		t.Errorf("an accepted image of the sidecar: %v", err)
	}
	if err := patch("", images("initContainers", m.name, "evil:1")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "evil:1") {
		t.Errorf("another image of the sidecar: %v", err)
	}
	memory := func(value string) any {
		return map[string]any{"spec": map[string]any{"initContainers": []any{map[string]any{"name": m.name, "resources": map[string]any{"limits": map[string]any{"memory": value}, "requests": map[string]any{"memory": value}}}}}}
	}
	if err := patch("resize", memory("65Mi")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "want 64Mi") {
		t.Errorf("another size of the sidecar: %v", err)
	}
}

// Not in parallel: it takes Pillion away from the others.
func TestMetadataAndFinalizersNeverDependOnPillion(t *testing.T) {
	_, n := newRequired(t, enforced())
	pod := newPod("web", nil)
	pod.Finalizers = []string{"example.com/wait"}
	stored := n.mustCreate(t, pod)
	backToOne(t)
	if err := shared.Kill(ground.Namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := n.create(t, newPod("other", nil)); err == nil {
		t.Error("a pod is created in an enforced namespace while Pillion is away")
	}
	for _, change := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"finalizers":null}}`} {
		if _, err := n.client.CoreV1().Pods(n.name).Patch(t.Context(), stored.Name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
}

func TestATemplateIsOnlyForTheNamespacesItIsAvailableTo(t *testing.T) {
	t.Parallel()
	team := unique("team")
	m := manifest{name: unique("side"), spec: fmt.Sprintf("\navailableTo: {namespaceSelector: {matchLabels: {team: %s}}}", team) + sidecarSpec}
	m.apply(t)
	in := newNamespace(t, asking(m.name), map[string]string{"team": team})
	out := newNamespace(t, asking(m.name), nil)
	eventually(t, soon, func() error {
		pod, err := in.preview(t, newPod("web", nil))
		if err == nil && sidecar(pod, m.name) == nil {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
	if _, err := out.create(t, newPod("web", nil)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "NotAllowedHere") || !strings.Contains(err.Error(), "availableTo") {
		t.Errorf("elsewhere: %v", err)
	}
}

func TestASuspendedTemplateIsInjectedNowhereAndWarnsWhoAsked(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	m.waitServed(t)
	n := newNamespace(t, asking(m.name), nil)
	must(t, "", "kubectl", "patch", "sidecartemplate", m.name, "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	eventually(t, inForce, func() error {
		n.warnings.take()
		pod, err := n.preview(t, newPod("web", nil))
		if err == nil && containerNames(pod) != "app" {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
	if w := n.warnings.take(); !strings.Contains(w, "Suspended") || !strings.Contains(w, m.name) {
		t.Errorf("the warnings are %q", w)
	}
}

func TestATemplateThatATenantMakesTooExpensiveRefusesOnlyThatPod(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: `
parameters:
- {name: items, type: list, items: string, default: a}
inject:
  metadata:
    annotations: {size: "${string(params.items.map(a, params.items.map(b, params.items.map(c, a + b + c))).size())}"}
`}
	m.apply(t)
	n := newNamespace(t, asking(m.name), nil)
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("web", nil))
		if err == nil && pod.Annotations["size"] != "1" {
			err = fmt.Errorf("annotations %v", pod.Annotations)
		}
		return err
	})
	_, err := n.create(t, newPod("costly", map[string]string{m.name + ".pillion.dev/items": strings.Repeat("a,", 5000) + "a"}))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "TemplateTooExpensive") {
		t.Errorf("a list of 5001 items: %v", err)
	}
	n.mustCreate(t, newPod("cheap", nil))
}
