package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// inFile writes a file of its own.
func inFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	expectNoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// API servers check the types of a policy's expressions by the schema of pods, and warn in its status.
func TestTheAPIServerFindsNoMistakeInAPolicy(t *testing.T) {
	t.Parallel()
	name := unique("mesh")
	file := inFile(t, "mesh.yaml", manifest{name: name, spec: policySpec}.yaml())
	printed := must(t, "", "pillion", "policy", name, "--library=fluent-bit", "--templates", file)
	must(t, printed, "kubectl", "apply", "-f", "-")
	removedAtTheEnd(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", "required-"+name+".pillion.dev")
	eventually(t, soon, func() error {
		policy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), "required-"+name+".pillion.dev", metav1.GetOptions{})
		expectNoError(t, err)
		if policy.Status.TypeChecking == nil || policy.Status.ObservedGeneration != policy.Generation {
			return fmt.Errorf("the types are not checked yet: %s", pretty(policy.Status))
		}
		if warnings := policy.Status.TypeChecking.ExpressionWarnings; len(warnings) > 0 {
			t.Errorf("it warns: %s", pretty(warnings))
		}
		return nil
	})
}

// policyFinding waits until check has one finding about the policy of a template, or none for "", and returns
// its remedy.
func policyFinding(t *testing.T, template, result, says string) (remedy string) {
	t.Helper()
	eventually(t, soon, func() error {
		_, found := checking(t).find("required-policies", template)
		switch {
		case result == "" && len(found) == 0:
		case len(found) != 1 || found[0].Result != result || !strings.Contains(found[0].Message, says):
			return fmt.Errorf("found %+v, want %s: %s", found, result, says)
		default:
			remedy = found[0].Remedy
		}
		return nil
	})
	return remedy
}

// Check finds a policy that is not as its required template, and the command that it names mends it.
func TestCheckFindsAPolicyThatIsNotAsItsTemplateAndItsRemedyMendsIt(t *testing.T) {
	m, _ := newRequired(t, nil)
	policy := "required-" + m.name + ".pillion.dev"
	removedAtTheEnd(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", policy, "--ignore-not-found")
	patch := func(kind, name, patch string) {
		must(t, "", "kubectl", "patch", kind, name, "--type=json", "-p", patch)
	}
	must(t, must(t, "", "pillion", "policy", m.name, "--cluster"), "kubectl", "apply", "-f", "-")
	policyFinding(t, m.name, "", "")
	for _, damage := range []struct {
		what         string
		do           func()
		result, says string
	}{
		{"a rule is gone, and a condition lets everything pass", func() {
			patch("validatingadmissionpolicy", policy, `[{"op":"remove","path":"/spec/validations/1"},{"op":"add","path":"/spec/matchConditions/-","value":{"name":"never","expression":"false"}}]`)
		}, "failed", "is not as the template"},
		{"the binding only warns", func() {
			patch("validatingadmissionpolicybinding", policy, `[{"op":"replace","path":"/spec/validationActions","value":["Warn"]}]`)
		}, "warning", "has no binding"},
		{"the binding is gone", func() {
			remove(t, "validatingadmissionpolicybinding", policy)
		}, "warning", "has no binding"},
		{"the template is suspended", func() {
			patch("sidecartemplate", m.name, `[{"op":"add","path":"/spec/suspend","value":true}]`)
		}, "failed", "there should be no admission policy " + policy + ": template " + m.name + ": it is suspended"},
	} {
		damage.do()
		does(t, policyFinding(t, m.name, damage.result, damage.says))
		policyFinding(t, m.name, "", "")
		if t.Failed() {
			t.Fatal(damage.what)
		}
	}
}

// floored is a template that is required in the namespaces of a team, one of these, and a pod there
// with its sidecar. There may be an admission policy for it.
type floored struct {
	manifest
	team string
	n    *namespace
}

func newFloored(t *testing.T, policy bool) floored {
	t.Helper()
	m, n := newRequired(t, nil)
	f := floored{m, n.labels(t)["team"], n}
	eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
	n.mustCreate(t, newPod("running", nil))
	if !policy {
		return f
	}
	must(t, must(t, "", "pillion", "policy", m.name, "--cluster"), "kubectl", "apply", "-f", "-")
	removedAtTheEnd(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", "required-"+m.name+".pillion.dev", "--ignore-not-found")
	eventually(t, soon, func() error { // the policy is in force
		return refusedWith(errorOf(f.evil(t)), "ValidatingAdmissionPolicy 'required-"+m.name)
	})
	return f
}

// evil changes the image of the sidecar by dry run.
func (f floored) evil(t *testing.T) (*corev1.Pod, error) {
	patch := `{"metadata":{"labels":{"changed":"too"}},"spec":{"initContainers":[{"name":"` + f.name + `","image":"evil.example.com/x:1"}]}}`
	return f.n.client.CoreV1().Pods(f.n.name).Patch(t.Context(), "running", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun.DryRun})
}

// answer says in short what became of a write of a pod.
func (f floored) answer(pod *corev1.Pod, err error) string {
	switch {
	case err == nil && sidecar(pod, f.name) == nil:
		return "**created bare**"
	case err == nil && sidecar(pod, f.name).Image != "registry.example.com/"+f.name+":1":
		return "**changed**"
	case err == nil:
		return "created with its sidecar"
	case strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'required-"+f.name+".pillion.dev' with binding 'required-"+f.name+".pillion.dev' denied request"):
		return "refused by the policy"
	case strings.Contains(err.Error(), "failed calling webhook"):
		return "refused: no answer"
	case strings.Contains(err.Error(), "RequiredMissing"):
		return "refused by Pillion"
	}
	return err.Error()
}

// letsGo fails if the labels of a pod, or its finalizers, cannot be written.
func (f floored) letsGo(t *testing.T) {
	t.Helper()
	for _, change := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/wait"]}}`, `{"metadata":{"finalizers":null}}`} {
		_, err := f.n.client.CoreV1().Pods(f.n.name).Patch(t.Context(), "running", types.MergePatchType, []byte(change), metav1.PatchOptions{})
		wantNoError(t, err, change)
	}
}

// tries are what a tenant tries.
var tries = []struct {
	what string
	do   func(t *testing.T, f floored) string
}{
	{"a new pod in an enforced namespace", func(t *testing.T, f floored) string { return f.answer(f.n.preview(t, newPod("new", nil))) }},
	{"a new pod in a new namespace", func(t *testing.T, f floored) string {
		made, err := makeNamespace(t, client, metav1.ObjectMeta{Labels: map[string]string{"team": f.team, nameLabel: "kube-system"}}, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		return f.answer(firstPod(t, client, made.Name))
	}},
	{"another image for a running sidecar", func(t *testing.T, f floored) string { return f.answer(f.evil(t)) }},
	{"`kubectl exec` into a running sidecar", func(t *testing.T, f floored) string { return f.entered(t, "exec", f.name) }},
	{"`kubectl attach` to a running sidecar", func(t *testing.T, f floored) string { return f.entered(t, "attach", f.name) }},
}

// entered says in short what an API server answers to exec or attach into a container of the running pod.
func (f floored) entered(t *testing.T, subresource, container string) string {
	t.Helper()
	request := f.n.client.CoreV1().RESTClient().Post().Namespace(f.n.name).Resource("pods").Name("running").SubResource(subresource).
		Param("container", container).Param("stdout", "true")
	if subresource == "exec" {
		request = request.Param("command", "true")
	}
	err := request.Do(t.Context()).Error()
	if err == nil || !apierrors.IsForbidden(err) {
		return "**entered**" // a control plane without nodes fails only then
	}
	return f.answer(nil, err)
}

// A heldRow is a row of the table in docs/concepts/required-policy.md.
type heldRow struct {
	states  string    // of Pillion, with a comma between them
	answers [2]string // without the policy, and with it
}

// A state is one that Pillion may be in.
type state struct {
	what       string
	bring, end func()
}

// statesOfPillion follow each other, for a template without a policy and for one with it.
func statesOfPillion(t *testing.T, both [2]floored) []state {
	return []state{
		{"runs", func() {}, func() {}},
		{"is away", func() {
			kill(t)
			for _, f := range both {
				f.letsGo(t)
			}
		}, func() { scale(t, 1) }},
		{"hangs", func() {
			replica := shared.Replicas(ground.Namespace)[0]
			expectNoError(t, syscall.Kill(replica.PID, syscall.SIGSTOP))
			t.Cleanup(func() { _ = syscall.Kill(replica.PID, syscall.SIGCONT) })
		}, func() {
			expectNoError(t, syscall.Kill(shared.Replicas(ground.Namespace)[0].PID, syscall.SIGCONT))
			injects(t, both[0].n, both[0].name)
		}},
		{"is not registered", func() {
			must(t, "", "kubectl", "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", configuration)
			atTheEnd(t, func(ctx context.Context) error {
				return errorOf(ground.Run(ctx, shared, "helm", upgradeOf("--reset-then-reuse-values")...))
			})
			eventually(t, soon, func() error { // API servers know
				pod, err := both[0].n.preview(t, newPod("free", nil))
				if err == nil && sidecar(pod, both[0].name) != nil {
					err = errors.New("it still gets its sidecar")
				}
				return err
			})
		}, func() {
			// The command of docs/concepts/required-policy.md against a policy that hurts.
			must(t, "", "kubectl", "delete", "validatingadmissionpolicybinding", "required-"+both[1].name+".pillion.dev")
			eventually(t, soon, func() error { return errorOf(both[1].n.preview(t, newPod("free", nil))) })
		}},
	}
}

// What becomes of pods of a required template while Pillion runs, is away, hangs, or is not registered:
// with an admission policy for the template, and without.
func TestWhatHoldsOfARequiredTemplateWithAndWithoutItsPolicy(t *testing.T) {
	eventually(t, soon, func() error { return proven("1") })
	both := [2]floored{newFloored(t, false), newFloored(t, true)}
	if t.Failed() {
		return
	}
	backToOne(t)
	rows := make([][]heldRow, len(tries))
	for _, state := range statesOfPillion(t, both) {
		state.bring()
		answers := make([][2]string, len(tries))
		var group sync.WaitGroup
		for i, try := range tries {
			for with, f := range both {
				group.Go(func() { answers[i][with] = try.do(t, f) })
			}
		}
		group.Wait()
		for i := range tries {
			if last := len(rows[i]) - 1; last >= 0 && rows[i][last].answers == answers[i] {
				rows[i][last].states += ", " + state.what
			} else {
				rows[i] = append(rows[i], heldRow{state.what, answers[i]})
			}
		}
		state.end()
	}
	table := "| what is tried | Pillion | without the policy | with it |\n| --- | --- | --- | --- |\n"
	for i, try := range tries {
		for _, row := range rows[i] {
			table += fmt.Sprintf("| %s | %s | %s | %s |\n", try.what, row.states, row.answers[0], row.answers[1])
		}
	}
	recorded(t, "concepts/required-policy.md", "table", func(string) string { return table })
}
