package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// misspelt is a spec with one mistake, at spec.inject.spec.initContainers[0].
var misspelt = strings.Replace(sidecarSpec, "restartPolicy: Always", "restartPolice: Always", 1)

// object reads a SidecarTemplate from the cluster.
func (m manifest) object(t *testing.T) v1alpha1.SidecarTemplate {
	t.Helper()
	var object v1alpha1.SidecarTemplate
	expectNoError(t, json.Unmarshal([]byte(must(t, "", "kubectl", "get", "sidecartemplate", m.name, "-o", "json")), &object))
	return object
}

func TestABadTemplateIsRefusedAtKubectlApplyWithLintsOwnWords(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("bad"), spec: misspelt}
	lint, _, _ := run(t, "", "pillion", "lint", inFile(t, "bad.yaml", m.yaml()))
	i := strings.Index(lint, "template "+m.name+": spec.inject.spec.initContainers[0].restartPolice: ")
	if i < 0 {
		t.Fatalf("lint says\n%s", lint)
	}
	want, _, _ := strings.Cut(lint[i:], " [compile]")
	for _, args := range [][]string{{"apply", "-f", "-"}, {"apply", "--dry-run=server", "-f", "-"}, {"apply", "--server-side", "-f", "-"}} {
		wantNoError(t, refusedWith(attempt(t, m.yaml(), "kubectl", args...), want, "(TemplateInvalid)"))
	}
}

func TestTheSchemaCatchesMistakesWithoutTheGuard(t *testing.T) {
	t.Parallel()
	var cases map[string]struct{ Name, Spec, Says string }
	fromYAML(t, "testdata/schema-mistakes.yaml", &cases)
	for why, c := range cases {
		m := manifest{name: cmp.Or(c.Name, unique("bad")), spec: "\n" + strings.Replace(c.Spec, "SIDECAR", sidecarSpec, 1)}
		err := attempt(t, m.yaml(), "kubectl", "apply", "--validate=strict", "-f", "-")
		wantNoError(t, refusedWith(err, c.Says), why)
		if err != nil && strings.Contains(err.Error(), "admission webhook") {
			t.Errorf("%s: the guard says it: %v", why, err)
		}
	}
}

func TestTheStatusTellsWhetherATemplateIsInForce(t *testing.T) {
	t.Parallel()
	m := served(t, sidecarSpec)
	var object v1alpha1.SidecarTemplate
	eventually(t, soon, func() error {
		object = m.object(t)
		if ready := meta.FindStatusCondition(object.Status.Conditions, "Ready"); ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != "Compiled" || object.Status.ObservedGeneration != object.Generation {
			return fmt.Errorf("the status is %s", pretty(object.Status))
		}
		return nil
	})
	n := newNamespace(t, asking(m.name), nil)
	pod := n.mustCreate(t, newPod("web", nil))
	if len(object.Status.Hash) != 16 || !strings.Contains(pod.Annotations[statusAnnotation], object.Status.Hash) {
		t.Errorf("the status has the hash %q, the pod %s", object.Status.Hash, pod.Annotations[statusAnnotation])
	}
	table := must(t, "", "kubectl", "get", "sidecartemplate", m.name)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if fields := strings.Fields(lines[1]); inOneLine(lines[0]) != "NAME READY DEFAULT REQUIRED SUSPENDED ORDER HASH AGE" ||
		len(fields) != 6 || !slices.Equal(fields[1:5], []string{"True", "false", "0", object.Status.Hash}) {
		t.Errorf("kubectl get shows\n%s", table)
	}
}
