package e2e

import (
	"fmt"
	"strings"
	"testing"
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
