package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// Not in parallel: it takes the guard away from the others.
func TestABadTemplateNeverReplacesAGoodOne(t *testing.T) {
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	m.waitServed(t)
	var good string
	eventually(t, soon, func() error {
		if good = m.object(t).Status.Hash; good == "" {
			return errors.New("the status has no hash yet")
		}
		return nil
	})
	withoutGuard(t, func() {
		must(t, strings.Replace(m.yaml(), "${params.logLevel}", "${params.nosuch}", 1), "kubectl", "apply", "-f", "-")
	})
	eventually(t, soon, func() error {
		return metric(shared.Replicas(ground.Namespace)[0], `pillion_template_info{good="false",`, `template="`+m.name+`"`)
	})
	n := newNamespace(t, asking(m.name), nil)
	if got := containerNames(n.mustCreate(t, newPod("web", nil))); got != m.name+" app" {
		t.Errorf("containers %s, want the good version's sidecar", got)
	}
	eventually(t, soon, func() error {
		o := m.object(t)
		ready := meta.FindStatusCondition(o.Status.Conditions, "Ready")
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "CompileFailed" || !strings.Contains(ready.Message, "params.>>>nosuch") || o.Status.Hash != good {
			return fmt.Errorf("the status is %s; want the mistake, and the hash %s of the version in force", pretty(o.Status), good)
		}
		return nil
	})
}

// Not in parallel: it takes the guard away from the others.
func TestATemplateOfUnknownShapeIsBrokenAndAffectsNothingElse(t *testing.T) {
	good := newTemplate(t)
	n := newNamespace(t, nil, nil)
	bad := manifest{name: unique("bad"), spec: misspelt}
	withoutGuard(t, func() { bad.apply(t) })
	eventually(t, soon, func() error {
		_, err := n.preview(t, newPod("web", asking(bad.name)))
		if err == nil || !strings.Contains(err.Error(), "TemplateBroken") || !strings.Contains(err.Error(), "restartPolice") {
			return fmt.Errorf("a pod that asks for a broken template gets: %v", err)
		}
		return nil
	})
	pod, err := n.preview(t, newPod("web", asking(good)))
	if err != nil || sidecar(pod, good) == nil {
		t.Errorf("beside a broken template, a good one gives: %v", err)
	}
}

// withoutGuard does something while API servers do not ask the guard, as when Pillion
// was down.
func withoutGuard(t *testing.T, do func()) {
	t.Helper()
	set := func(resources string) {
		must(t, `[{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["`+resources+`"]}]`,
			"kubectl", "patch", "validatingwebhookconfiguration", configuration, "--type=json", "--patch-file=/dev/stdin")
	}
	probe := manifest{name: unique("probe"), spec: misspelt}
	asked := func(want bool) {
		eventually(t, soon, func() error {
			_, _, err := run(t, probe.yaml(), "kubectl", "apply", "--dry-run=server", "-f", "-")
			if (err != nil) != want {
				return fmt.Errorf("whether the guard is asked is %t: %v", !want, err)
			}
			return nil
		})
	}
	set("nothing")
	defer func() {
		set("sidecartemplates")
		asked(true)
	}()
	asked(false)
	do()
}
