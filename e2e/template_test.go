package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
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
