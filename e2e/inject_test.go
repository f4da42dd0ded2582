package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWarningsReachWhoeverCreatesThePod(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	copied := newPod("copied", nil)
	copied.Labels = map[string]string{"vault.pillion.dev/hash": "0123456789"}
	pod := n.mustCreate(t, copied)
	wantTexts(t, "of a label that says what is not so a warning", n.warnings.take(), "UntrueLabel", "vault.pillion.dev/hash")
	if found := must(t, "", "kubectl", "-n", n.name, "get", "pods", "-l", "pillion.dev/injected", "-L", name+".pillion.dev/hash", "--no-headers"); !strings.HasPrefix(found, "copied ") ||
		!strings.HasSuffix(strings.TrimSpace(found), " "+pod.Labels[name+".pillion.dev/hash"]) || len(pod.Labels[name+".pillion.dev/hash"]) != 10 {
		t.Errorf("kubectl finds the injected pods\n%s\nwant the one with the labels %v", found, pod.Labels)
	}
	other := unique("side")
	manifest{name: other, spec: "\nsuspend: true" + sidecarSpec}.apply(t)
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("both", asking("+"+other)))
		err = errors.Join(err, lacks(n.warnings.take(), other, "Suspended"))
		if err == nil && containerNames(pod) != name+" app" {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
}

func TestAuditEventsSayWhatWasInjected(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), open())
	n.mustCreate(t, newPod("audited", nil))
	eventually(t, soon, func() error {
		for _, e := range auditEvents(t, n.name) {
			if e.Annotations["requested.pillion.dev/decision"] == "Injected" && strings.HasPrefix(e.Annotations["requested.pillion.dev/templates"], name+"=") {
				return nil
			}
		}
		return fmt.Errorf("no audit event with the decision and the template:\n%s", pretty(auditEvents(t, n.name)))
	})
}
