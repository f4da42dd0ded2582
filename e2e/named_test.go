package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whoever corrected the name instead would take the sidecar from pods that are made anew.
func TestCheckHasATemplateAppliedAgainWhosePodsStillRun(t *testing.T) {
	t.Parallel()
	m := served(t, sidecarSpec)
	n := newNamespace(t, asking(m.name), nil)
	injects(t, n, m.name)
	n.mustCreate(t, newPod("web", nil))
	must(t, "", "kubectl", "annotate", "sidecartemplate", m.name, "pillion.dev/allow-delete=true")
	must(t, "", "kubectl", "delete", "sidecartemplate", m.name)
	eventually(t, soon, func() error {
		_, found := checking(t).find("template-names", "namespace "+n.name+" ")
		if len(found) != 1 || !strings.Contains(found[0].Message, "pods of it run with the sidecar of "+m.name) || found[0].Remedy != "kubectl apply -f SIDECARTEMPLATES" {
			return fmt.Errorf("template-names: %+v", found)
		}
		return nil
	})
	does(t, "kubectl apply -f "+inFile(t, "template.yaml", m.yaml()))
	injects(t, n, m.name)
}

// Not in parallel: it takes every template of the cluster away from the others.
func TestADeletedCRDTakesNoTemplateOutOfForce(t *testing.T) {
	m := served(t, sidecarSpec)
	n := newNamespace(t, asking(m.name), nil)
	injects(t, n, m.name)
	definition, file := "sidecartemplates.pillion.dev", inFile(t, "template.yaml", m.yaml())
	// Deletion goes past the guard, though a namespace names the template: API servers ask no
	// webhook about objects that go with their CRD.
	must(t, "", "kubectl", "delete", "crd", definition, "--timeout=60s")
	tried := 0
	allInjected := func(when string) {
		t.Helper()
		for until := time.Now().Add(time.Second); time.Now().Before(until); tried++ {
			pod, err := n.preview(t, newPod("web", nil))
			if err != nil || sidecar(pod, m.name) == nil {
				t.Fatalf("pod %d, %s: %v", tried, when, err)
			}
		}
	}
	// Check says what is so, and its remedy takes nothing away while it is pasted.
	var remedy string
	defer func() {
		_, _, _ = run(t, "", "kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", checkout.Path("charts", "pillion", "crds"))
		_, _, _ = run(t, "", "helm", upgradeOf(installed...)...)
		_, _, _ = run(t, "", "kubectl", "apply", "-f", file)
	}()
	eventually(t, soon, func() error {
		c := checking(t)
		result, found := c.find("crds", definition)
		if result != "failed" || len(found) != 1 || !strings.Contains(found[0].Message, "Restart no replica before") {
			return fmt.Errorf("crds is %s: %+v", result, found)
		}
		remedy = found[0].Remedy
		if result, found := c.find("template-names", ""); result != "ok" {
			return fmt.Errorf("template-names is %s: %+v", result, found)
		}
		return nil
	})
	allInjected("after the CRD was deleted")
	does(t, strings.Replace(remedy, "CHART", checkout.Chart(), 1))
	allInjected("with the CRD back")
	eventually(t, soon, func() error {
		if result, found := checking(t).find("templates", "are in force, and their objects are gone"); result != "warning" || len(found) != 1 || found[0].Remedy != "kubectl apply -f SIDECARTEMPLATES" {
			return fmt.Errorf("templates is %s: %+v", result, found)
		}
		return nil
	})
	eventually(t, soon, func() error { // an API server serves a new definition after a moment
		_, stderr, err := run(t, "", "kubectl", "apply", "-f", file)
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		return nil
	})
	eventually(t, soon, func() error {
		if object := m.object(t); object.Status.Hash == "" {
			return fmt.Errorf("with the CRD back, the status is %s", pretty(object.Status))
		}
		return nil
	})
	allInjected("with the template back")
	must(t, "", "helm", upgradeOf(installed...)...) // the release's own templates
	soundly(t)
}
