package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	syaml "sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// inFile writes a file of its own.
func inFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	expectNoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// objectsOf reads a file of YAML, and returns the policies and bindings of required templates:
// what they specify, as JSON, by kind and name.
func objectsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, object := range objectsIn(t, text) {
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") && strings.HasPrefix(object.GetName(), "required-") {
			found[object.GetKind()+" "+object.GetName()] = pretty(object.Object["spec"])
		}
	}
	return found
}

// chartPolicies renders the chart with values, and returns its policies of required templates.
func chartPolicies(t *testing.T, values string, args ...string) map[string]string {
	t.Helper()
	args = append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace, "-f", inFile(t, "values.yaml", values), "--set", "required.policy=true"}, args...)
	return objectsOf(t, must(t, "", "helm", args...))
}

// What the chart and the command make of the same template is the same.
func TestTheChartMakesThePoliciesThatTheCommandPrints(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{
		"one image": `
required: true
match: {}
inject: {spec: {containers: [{name: a, image: "docker.io/a/b:1"}]}}`,
		"selectors": `
required: true
match:
  namespaceSelector: {matchLabels: {z: "1", team: "true"}, matchExpressions: [{key: tier, operator: In, values: [b, a]}, {key: plain, operator: DoesNotExist}]}
  podSelector: {matchLabels: {z.example.com/b: x, a: ""}, matchExpressions: [{key: c, operator: NotIn, values: [w, x]}, {key: d, operator: Exists}, {key: e, operator: DoesNotExist}, {key: f, operator: In, values: [g]}]}
inject: {spec: {initContainers: [{name: a, image: "a:1", restartPolicy: Always}]}}`,
		"exceptions": `
required: true
match: {namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchLabels: {mesh: required}}}
exceptions:
- {name: a, namespaceSelector: {matchLabels: {tier: x}, matchExpressions: [{key: zone, operator: DoesNotExist}]}, podSelector: {matchExpressions: [{key: app, operator: In, values: [batch, cron]}]}, until: "2027-03-31T00:00:00Z", reason: OPS-1}
- {name: b, podSelector: {matchExpressions: [{key: old, operator: Exists}]}, until: 2027-03-30T20:00:00-04:00, reason: 'OPS-2: "soon"'}
- {name: c, namespaceSelector: {matchLabels: {tier: z}}, podSelector: {}, until: "2026-01-01T00:00:00Z", reason: OPS-3}
inject: {spec: {containers: [{name: a, image: "docker.io/a/b:1"}]}}`,
		"a parameter that the installer's values set": `
required: true
match: {}
parameters: [{name: image, type: image, default: "a:1"}, {name: mirrored, type: image, default: "a:1", setBy: []}]
inject: {spec: {containers: [{name: a, image: "${params.image}"}], initContainers: [{name: b, image: "${ params.mirrored }"}]}}`,
		"patterns and conditions and what teams set": `
required: true
match: {}
verify: {images: ["r.example.com:5000/**", "*.example.com/a+b/*", "docker.io/[x]/c@sha256:*"], allow: {resources: true}}
parameters: [{name: image, type: image, default: "r.example.com:5000/p:1", setBy: [Namespace]}, {name: early, type: boolean, default: true}]
inject:
  spec:
    initContainers:
    - {$if: params.early, name: init, image: "r.example.com:5000/init:1"}
    - {$if: "!params.early", name: init, image: "r.example.com:5000/init:2"}
    - {name: a, image: "${params.image}"}
    containers:
    - {name: b, image: "r.example.com:5000/${params.early ? 'b' : 'c'}:1"}
    - {name: app, env: [{name: A, value: b}]}`,
		"canaries": `
required: true
match: {}
verify: {images: ["r.example.com/a/*"]}
parameters: [{name: mirrored, type: image, default: "b:1", setBy: []}]
inject:
  spec:
    containers: [{name: a, image: "a:1"}, {name: b, image: "${params.mirrored}"}, {name: only-stable, image: "c:1"}, {name: patched, image: "d:1"}]
---
canary: {of: mesh, percent: 10}
verify: {images: ["r.example.com/a/*", "r.example.com/next/*"]}
parameters: [{name: mirrored, type: image, default: "b:2", setBy: []}, {name: open, type: image, default: "r.example.com/next/f:1", setBy: [Pod]}]
inject:
  spec:
    containers: [{name: a, image: "a:2"}, {name: b, image: "${params.mirrored}"}, {name: f, image: "${params.open}"}, {$if: "has(pod.metadata)", name: patched, image: "d:2"}]
---
canary: {of: mesh, podSelector: {matchLabels: {next: "true"}}}
parameters: [{name: mirrored, type: image, default: "b:3"}]
inject: {spec: {initContainers: [{name: g, image: "g:1", restartPolicy: Always}], containers: [{name: a, image: "a:3"}]}}
---
canary: {of: another}
inject: {spec: {containers: [{name: a, image: "a:4"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := "defaults: {another: {image: x}}"
			if strings.Contains(spec, "params.mirrored") {
				values = "defaults: {mesh: {mirrored: \"mirror.example.com/a:2\"}}"
			}
			var manifest string // of the template, and of its canaries, the last one first
			templates := map[string]any{}
			for i, spec := range strings.Split(spec, "\n---") {
				name := "mesh"
				if i > 0 {
					name = fmt.Sprint("mesh-next-", i)
				}
				one := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:" + strings.ReplaceAll(spec, "\n", "\n  ") + "\n"
				manifest = one + strings.Repeat("---\n", min(i, 1)) + manifest
				var object map[string]any
				expectNoError(t, syaml.Unmarshal([]byte(one), &object))
				templates[name] = object
			}
			printed := must(t, "", "pillion", "policy", "mesh", "--templates", inFile(t, "mesh.yaml", manifest), "--values", inFile(t, "values.yaml", values), "--excluded-namespaces=kube-system,kube-node-lease", "--pillion-namespace", ground.Namespace)
			want := objectsOf(t, printed)
			if len(want) != 2 {
				t.Fatalf("the command prints\n%s", printed)
			}
			same := func(form string, templates map[string]any, args ...string) {
				t.Helper()
				text, err := json.Marshal(map[string]any{"templates": templates})
				expectNoError(t, err)
				got := chartPolicies(t, string(text)+"\n", append([]string{"-f", inFile(t, "more.yaml", "values: {"+values+"}")}, args...)...)
				for what, spec := range want {
					if got[what] != spec {
						t.Errorf("%s: the chart makes of %s\n%s\nand the command\n%s", form, what, got[what], spec)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%s: the chart makes %d objects", form, len(got))
				}
			}
			specs := map[string]any{}
			for name, object := range templates {
				specs[name] = object.(map[string]any)["spec"]
			}
			same("specs", specs)
			const notRequired = "---\nkind: SidecarTemplate\nmetadata: {name: not-required}\nspec: {match: {}, inject: {spec: {containers: [{name: a, image: 'a:1'}]}}}\n"
			same("a text with more than one manifest", map[string]any{"all": "---\n" + manifest + notRequired})
			if name != "one image" {
				return
			}
			same("manifests", templates)
			same("excluded namespaces in another order", specs, "--set", "excludedNamespaces={kube-system,"+ground.Namespace+",kube-node-lease}")
		})
	}
}

// printsNone fails the test unless the command fails for the template, and says so.
func printsNone(t *testing.T, spec, says string) {
	t.Helper()
	manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: mesh}\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n"
	if _, _, err := run(t, "", "pillion", "policy", "mesh", "--library=fluent-bit", "--templates", inFile(t, "mesh.yaml", manifest), "--values", inFile(t, "values.yaml", "x: 'a:1'")); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: the command: %v", spec, err)
	}
}

// Where the command says that no policy can hold pods to a template, the chart makes none; where it
// says what to add, the chart fails and says so.
func TestTheChartMakesNoPolicyWhereTheCommandPrintsNone(t *testing.T) {
	t.Parallel()
	const container = "\ninject: {spec: {containers: [{name: a, image: \"a:1\"}]}}"
	none := "values: {x: 'a:1'}\ntemplates:\n" // a chart's values with all templates that no policy comes of
	for i, spec := range []string{
		"match: {}" + container,
		"required: true\nsuspend: true\nmatch: {}" + container,
		"required: true\nmatch: {}\nmatchConditions: [{name: a, expression: 'true'}]" + container,
		"required: true\nmatch: {}\ninject: {spec: {containers: [{$if: 'has(pod.metadata)', name: a, image: '${values.x}'}]}}",
		"required: true\nmatch: {}\ninject: {spec: {$if: 'has(pod.metadata)', containers: [{name: a, image: 'a:1'}]}}",
		"required: true\nmatch: {}\ninject: {metadata: {labels: {a: b}}}",
	} {
		none += fmt.Sprintf("  mesh-%d:\n    %s\n", i, strings.ReplaceAll(spec, "\n", "\n    "))
		printsNone(t, spec, "")
	}
	if policies := chartPolicies(t, none); len(policies) > 0 {
		t.Errorf("the chart makes %v", policies)
	}
	for _, spec := range []string{
		"required: true\nmatch: {}\ninject: {spec: {containers: [{name: a, image: '${values.x}'}]}}",
		"required: true\nmatch: {}\nparameters: [{name: image, type: image, default: 'a:1', setBy: [Namespace]}]\ninject: {spec: {containers: [{name: a, image: '${params.image}'}]}}",
	} {
		values := inFile(t, "values.yaml", "values: {x: 'a:1'}\ntemplates:\n  mesh:\n    "+strings.ReplaceAll(spec, "\n", "\n    ")+"\n")
		_, _, err := run(t, "", "helm", "template", ground.Release, checkout.Chart(), "-n", ground.Namespace, "-f", values, "--set", "required.policy=true")
		if err == nil || !strings.Contains(err.Error(), "spec.verify.images") || !strings.Contains(err.Error(), "templates.mesh") {
			t.Errorf("%s: %v", spec, err)
		}
		printsNone(t, spec, "spec.verify.images")
	}
	for set, want := range map[string]string{ // by --set-json
		"rbac.admissionPolicy=false":                                 "rbac.admissionPolicy=true",
		`webhook.matchConditions=[{"name":"a","expression":"true"}]`: "webhook.matchConditions",
	} {
		if _, _, err := run(t, "", "helm", "template", ground.Release, checkout.Chart(), "--set", "required.policy=true", "--set-json", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set-json %s: %v", set, err)
		}
	}
	if policies := chartPolicies(t, "required: {policy: true}\n", "--set", "library={fluent-bit}"); len(policies) > 0 {
		t.Errorf("without templates: %v", policies)
	}
}

// API servers check the types of a policy's expressions by the schema of pods, and warn in its status.
func TestTheAPIServerFindsNoMistakeInAPolicy(t *testing.T) {
	t.Parallel()
	name := unique("mesh")
	manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + `}
spec:
  required: true
  match: {namespaceSelector: {matchLabels: {nobody: has}}, podSelector: {matchLabels: {app: web}, matchExpressions: [{key: plain, operator: DoesNotExist}, {key: c, operator: NotIn, values: [w, x]}]}}
  verify: {images: ["r.example.com/**", "*.example.com/a/*"]}
  exceptions: [{name: a, namespaceSelector: {matchLabels: {tier: x}}, podSelector: {matchExpressions: [{key: old, operator: Exists}]}, until: "2027-03-31T00:00:00Z", reason: x}]
  inject: {spec: {initContainers: [{name: a, image: "a:1"}, {$if: "has(pod.metadata)", name: b, image: "b:1"}], containers: [{name: c, image: "c:1"}]}}
`
	printed := must(t, "", "pillion", "policy", name, "--library=fluent-bit", "--templates", inFile(t, "mesh.yaml", manifest))
	must(t, printed, "kubectl", "apply", "-f", "-")
	t.Cleanup(func() {
		remove(t, "validatingadmissionpolicy/required-"+name+".pillion.dev")
		remove(t, "validatingadmissionpolicybinding/required-"+name+".pillion.dev")
	})
	eventually(t, soon, func() error {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		if err := json.Unmarshal([]byte(must(t, "", "kubectl", "get", "validatingadmissionpolicy", "required-"+name+".pillion.dev", "-o", "json")), &policy); err != nil {
			return err
		}
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
	t.Cleanup(func() {
		remove(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", policy, "--ignore-not-found")
	})
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
		{"the binding is gone", func() { must(t, "", "kubectl", "delete", "validatingadmissionpolicybinding", policy) }, "warning", "has no binding"},
		{"the binding only warns", func() {
			patch("validatingadmissionpolicybinding", policy, `[{"op":"replace","path":"/spec/validationActions","value":["Warn"]}]`)
		}, "warning", "has no binding"},
		{"the template has another image", func() {
			patch("sidecartemplate", m.name, `[{"op":"replace","path":"/spec/inject/spec/initContainers/0/image","value":"registry.example.com/other:2"}]`)
		}, "failed", "is not as the template"},
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

// The policy that the chart makes is the one that the command prints, also as the API server stored
// it; and the commands that check names for it bring it back.
func TestCheckKnowsThePolicyThatTheChartMadeAndHowToBringItBack(t *testing.T) {
	m := requiredFor(unique("team"), sidecarSpec)
	policy := "required-" + m.name + ".pillion.dev"
	upgrade := upgradeOf(installed...)
	t.Cleanup(func() {
		if _, err := ground.Run(context.Background(), shared, "helm", upgrade...); err != nil {
			t.Error(err)
		}
		if err := shared.Rollout(context.Background(), ground.Namespace); err != nil {
			t.Error(err)
		}
	})
	must(t, "", "helm", append(upgrade, "--set", "required.policy=true", "--set-file", "templates."+m.name+"="+inFile(t, "template.yaml", m.yaml()))...)
	rolledOut(t, ground.Namespace)
	soundly(t)
	before := wholeRelease(t)
	must(t, "", "kubectl", "patch", "validatingadmissionpolicy", policy, "--type=merge", "-p", `{"spec":{"failurePolicy":"Ignore"}}`)
	mends(t, finds(t, "policies", policy+`: it has spec.failurePolicy "Ignore", and the chart renders "Fail"`))
	isBack(t, before)
	must(t, "", "kubectl", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", policy)
	mends(t, finds(t, "policies", "there is no validatingadmissionpolicybinding/"+policy))
	isBack(t, before)
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
	team := unique("team")
	m := requiredFor(team, sidecarSpec)
	f := floored{manifest: m, team: team}
	m.apply(t)
	waitRequired(t, map[string]string{"team": f.team})
	f.n = newNamespace(t, nil, map[string]string{"team": f.team})
	eventually(t, soon, func() error { return f.n.hasInjection(t, "enforced") })
	injects(t, f.n, m.name)
	f.n.mustCreate(t, newPod("running", nil))
	if !policy {
		return f
	}
	must(t, must(t, "", "pillion", "policy", m.name, "--cluster"), "kubectl", "apply", "-f", "-")
	t.Cleanup(func() {
		remove(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", "required-"+m.name+".pillion.dev", "--ignore-not-found")
	})
	eventually(t, soon, func() error { // the policy is in force
		_, err := f.n.client.CoreV1().Pods(f.n.name).Patch(t.Context(), "running", types.StrategicMergePatchType, f.evil(), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'required-"+m.name) {
			return fmt.Errorf("another image: %v", err)
		}
		return nil
	})
	return f
}

// evil is a patch that changes the image of the sidecar.
func (f floored) evil() []byte {
	return []byte(`{"metadata":{"labels":{"changed":"too"}},"spec":{"initContainers":[{"name":"` + f.name + `","image":"evil.example.com/x:1"}]}}`)
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
		if _, err := f.n.client.CoreV1().Pods(f.n.name).Patch(t.Context(), "running", types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// keepsItsImage fails if a subresource changes the image of the sidecar: the policy is not about these.
func (f floored) keepsItsImage(t *testing.T) {
	t.Helper()
	pods := f.n.client.CoreV1().Pods(f.n.name)
	for _, subresource := range []string{"resize", "ephemeralcontainers", "status"} {
		_, err := pods.Patch(t.Context(), "running", types.StrategicMergePatchType, f.evil(), metav1.PatchOptions{}, subresource)
		pod, missing := pods.Get(t.Context(), "running", metav1.GetOptions{})
		if missing != nil {
			t.Fatal(missing)
		}
		if got := f.answer(pod, nil); got != "created with its sidecar" {
			t.Errorf("by the subresource %s (%v): %s", subresource, err, got)
		}
	}
}

// tries are what a tenant tries.
var tries = []struct {
	what string
	do   func(t *testing.T, f floored) string
}{
	{"a new pod in an enforced namespace", func(t *testing.T, f floored) string {
		return f.answer(f.n.preview(t, newPod("new", nil)))
	}},
	{"a new pod in a new namespace", func(t *testing.T, f floored) string {
		made, err := makeNamespace(t, client, metav1.ObjectMeta{Labels: map[string]string{"team": f.team, nameLabel: "kube-system"}}, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
		if _, err := client.CoreV1().ServiceAccounts(made.Name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		pod := newPod("new", nil)
		pod.Spec.ServiceAccountName = "own"
		return f.answer(client.CoreV1().Pods(made.Name).Create(t.Context(), pod, metav1.CreateOptions{}))
	}},
	{"another image for a running sidecar", func(t *testing.T, f floored) string {
		return f.answer(f.n.client.CoreV1().Pods(f.n.name).Patch(t.Context(), "running", types.StrategicMergePatchType, f.evil(), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
	}},
}

// A heldRow is a row of the table in docs/concepts/when-pillion-fails.md.
type heldRow struct {
	states  string    // of Pillion, with a comma between them
	answers [2]string // without the policy, and with it
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
	for _, state := range []struct {
		what       string
		bring, end func()
	}{
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
			t.Cleanup(func() {
				_, err := ground.Run(context.Background(), shared, "helm", "upgrade", ground.Release, checkout.Chart(), "-n", ground.Namespace, "--reset-then-reuse-values")
				if err != nil {
					t.Error(err)
				}
			})
			eventually(t, soon, func() error { // API servers know
				pod, err := both[0].n.preview(t, newPod("free", nil))
				if err == nil && sidecar(pod, both[0].name) != nil {
					err = errors.New("it still gets its sidecar")
				}
				return err
			})
		}, func() {
			both[1].keepsItsImage(t)
			// The command of docs/concepts/when-pillion-fails.md against a policy that hurts.
			must(t, "", "kubectl", "delete", "validatingadmissionpolicybinding", "required-"+both[1].name+".pillion.dev")
			eventually(t, soon, func() error {
				_, err := both[1].n.preview(t, newPod("free", nil))
				return err
			})
		}},
	} {
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
	recorded(t, "concepts/when-pillion-fails.md", "table", func(string) string { return table })
}
