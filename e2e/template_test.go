package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// inForce is how soon a change to a template has to be in force by the promise
// of the product, with room for a busy machine and for the request that tells.
const inForce = 5 * time.Second

func TestATemplateAppliedWithKubectlIsServedSoon(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	took := eventually(t, inForce, func() error {
		pod, err := n.preview(t, newPod("web", asking(m.name)))
		if err == nil && sidecar(pod, m.name) == nil {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
	t.Attr("kubectl-apply-of-a-template-to-injected-pod", took.Round(time.Millisecond).String())

	must(t, strings.ReplaceAll(m.yaml(), m.name+":1", m.name+":2"), "kubectl", "apply", "-f", "-")
	eventually(t, inForce, func() error {
		pod, err := n.preview(t, newPod("web", asking(m.name)))
		if err == nil && !strings.HasSuffix(sidecar(pod, m.name).Image, ":2") {
			err = fmt.Errorf("the image is %s, want the changed template's", sidecar(pod, m.name).Image)
		}
		return err
	})

	must(t, "", "kubectl", "delete", "sidecartemplate", m.name)
	eventually(t, inForce, func() error {
		_, err := n.preview(t, newPod("web", asking(m.name)))
		if err == nil || !strings.Contains(err.Error(), "UnknownTemplate") {
			return fmt.Errorf("after its deletion a pod that asks for the template gets: %v", err)
		}
		return nil
	})
}

func TestAPodThatFailsAMatchConditionIsAdmittedWithTheTemplatesMessage(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: `
matchConditions:
- {name: not-host-network, expression: "!pod.spec.?hostNetwork.orValue(false)", message: "host network pods log to the node"}` + sidecarSpec}
	m.apply(t)
	m.waitServed(t)
	n := newNamespace(t, asking(m.name), nil)
	pod := newPod("host", nil)
	pod.Spec.HostNetwork = true
	if got := containerNames(n.mustCreate(t, pod)); got != "app" {
		t.Errorf("containers %s, want only app", got)
	}
	if w := n.warnings.take(); !strings.Contains(w, "host network pods log to the node") || !strings.Contains(w, "ConditionFalse") {
		t.Errorf("the warnings are %q, want the condition's message and the reason", w)
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
