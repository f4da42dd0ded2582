package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// inForce is how soon a change to a template has to be in force by the promise
// of the product, with room for a busy machine and for the request that tells.
const inForce = 5 * time.Second

func TestATemplateAppliedWithKubectlIsServedSoon(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	n.previews(t, inForce, newPod("web", asking(m.name)), func(pod *corev1.Pod) bool { return sidecar(pod, m.name) != nil })
	must(t, "", "kubectl", "delete", "sidecartemplate", m.name)
	eventually(t, inForce, func() error { return n.isUnknown(t, m.name) })
}

// isUnknown is nil if a pod of the namespace that asks for the template is refused, as there is none.
func (n *namespace) isUnknown(t *testing.T, template string) error {
	t.Helper()
	return refusedWith(errorOf(n.preview(t, newPod("web", asking(template)))), "UnknownTemplate")
}
