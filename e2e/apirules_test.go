package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ruleCase is a fragment of a template, with what is said of it at kubectl apply and by lint --server.
type ruleCase struct {
	Name                      string
	Fragment, Pod             map[string]any
	Refused, With, Unanswered string
}

// fromYAML reads YAML of the tests.
func fromYAML(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	expectNoError(t, err)
	expectNoError(t, yaml.UnmarshalStrict(data, into))
}

func asYAML(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	expectNoError(t, err)
	return string(text)
}

// What no pod may have, the API server says when a template is applied, in terms of the template.
func TestATemplateThatNoPodMayHaveIsRefusedWithTheAPIServersOwnWords(t *testing.T) {
	t.Parallel()
	var cases []ruleCase
	fromYAML(t, "testdata/apirules.yaml", &cases)
	n := newNamespace(t, nil, nil)
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("rules-%d", i)
			template := asYAML(t, map[string]any{
				"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": name}, "spec": map[string]any{"inject": c.Fragment},
			})
			pod := inFile(t, "pod.yaml", asYAML(t, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": c.Pod}))
			_, applied, err := run(t, template, "kubectl", "apply", "--dry-run=server", "-f", "-")
			want := ""
			if c.Refused != "" {
				want = "template " + name + ": " + guardWords(c.Refused)
			}
			if (err != nil) != (want != "") || !strings.Contains(applied, want) {
				t.Errorf("kubectl apply: %v\n%s\nwant %q", err, applied, want)
			}
			file := inFile(t, "template.yaml", template)
			alone, _, err := run(t, "", "pillion", "lint", "--server", "-n", n.name, file)
			if want := c.Refused + c.Unanswered; (err != nil) != (want != "") || !strings.Contains(alone, want) {
				t.Errorf("lint --server: %v\n%s\nwant %q", err, alone, want)
			}
			beside, _, err := run(t, "", "pillion", "lint", "--server", "-n", n.name, file, "--pod", pod)
			if want := strings.ReplaceAll(c.Refused+c.Unanswered+c.With, "FILE", pod); (err != nil) != (want != "") || !strings.Contains(beside, want) {
				t.Errorf("lint --server --pod: %v\n%s\nwant %q", err, beside, want)
			}
			t.Logf("%s\napply: %s\nlint --server: %s\nwith the pod: %s", c.Name, applied, alone, beside)
		})
	}
}

// An API server cannot decode a patch with such a quantity, and answers with an error that names nobody.
func TestAQuantityThatIsNoneIsNamedWhereItComesFrom(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	spec := func(cpu string) string {
		return fmt.Sprintf("spec: {inject: {spec: {initContainers: [{name: s, image: 'busybox:1.36', restartPolicy: Always, resources: {limits: {cpu: %q}}}]}}}\n", cpu)
	}
	template := func(name, cpu string) string {
		return "apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: " + name + ", namespace: " + n.name + "}\n" + spec(cpu)
	}
	if _, stderr, err := run(t, template("constant", "ten"), "kubectl", "apply", "-f", "-"); err == nil || !strings.Contains(stderr, `template constant: spec.inject.spec.initContainers[0].resources.limits.cpu: "ten" is no quantity`) {
		t.Errorf("at kubectl apply: %v\n%s", err, stderr)
	}
	must(t, template("annotated", "${pod.?metadata.?annotations[?'cpu'].orValue('1')}"), "kubectl", "apply", "-f", "-")
	eventually(t, soon, func() error {
		_, err := n.preview(t, newPod("probe", map[string]string{"pillion.dev/inject": "annotated", "cpu": "invalid"}))
		const want = `template annotated: spec.inject.spec.initContainers[0].resources.limits.cpu: gives "invalid", which is no quantity`
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "RenderFailed") {
			return fmt.Errorf("the pod: %v; want %s", err, want)
		}
		return nil
	})
}

// guardWords are those of the guard for what lint --server says.
func guardWords(said string) string {
	path, rest, _ := strings.Cut(said, ": ")
	return path + ": the API server refuses pods that get this: " + rest
}

// brokenPod is a pod with one mistake, at a field.
type brokenPod struct {
	Field                     string
	Metadata, Spec, Container map[string]any
}

// The tables of lint and of the schema are a small part of the API's rules, and no line of them may be wrong.
func TestTheAPIServerRefusesWhatTheTablesDo(t *testing.T) {
	t.Parallel()
	var cases, scalars []brokenPod
	fromYAML(t, checkout.Path("lint", "testdata", "pods.yaml"), &cases)
	fromYAML(t, checkout.Path("templates", "podschema", "testdata", "scalars.yaml"), &scalars)
	cases = append(cases, scalars...)
	n := newNamespace(t, nil, nil)
	for _, c := range cases {
		container := map[string]any{"name": "app", "image": "a:1"}
		maps.Copy(container, c.Container)
		spec := map[string]any{"containers": []any{container}}
		maps.Copy(spec, c.Spec)
		metadata := map[string]any{"name": "p"}
		maps.Copy(metadata, c.Metadata)
		raw, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
		expectNoError(t, err)
		var pod corev1.Pod
		expectNoError(t, json.Unmarshal(raw, &pod))
		if _, err = n.preview(t, &pod); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", c.Field, err)
		}
	}
}

// withoutGuard has no template judged by the guard until the test ends, as while Pillion is away.
func withoutGuard(t *testing.T) (restore func()) {
	t.Helper()
	api, ctx := client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), context.WithoutCancel(t.Context()) // for the cleanup
	change := func(conditions []registrationv1.MatchCondition) []registrationv1.MatchCondition {
		var before []registrationv1.MatchCondition
		eventually(t, soon, func() error {
			configuration, err := api.Get(ctx, "pillion", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for i := range configuration.Webhooks {
				if w := &configuration.Webhooks[i]; strings.HasPrefix(w.Name, "sidecartemplates.") {
					before, w.MatchConditions = w.MatchConditions, conditions
				}
			}
			_, err = api.Update(ctx, configuration, metav1.UpdateOptions{})
			return err
		})
		return before
	}
	before := change([]registrationv1.MatchCondition{{Name: "never", Expression: "false"}})
	return func() { change(before) }
}

// A template that came while the guard was away is in force, and its status says that no pod may have it.
// Not in parallel: no template is judged meanwhile.
func TestTheStatusOfATemplateThatCameWithoutTheGuardSaysThatItsPodsAreRefused(t *testing.T) {
	spec := strings.Replace(sidecarSpec, "resources: {limits:", "terminationMessagePolicy: Logs\n      resources: {limits:", 1)
	m := manifest{name: unique("unjudged"), spec: spec}
	own := strings.Replace(ownTemplate("unjudged", "  match: {}\n"), "restartPolicy: Always", "restartPolicy: Always, terminationMessagePolicy: Logs", 1)
	n := newNamespace(t, nil, nil)
	restore := withoutGuard(t)
	t.Cleanup(restore)
	eventually(t, soon, func() error {
		_, stderr, err := run(t, m.yaml(), "kubectl", "apply", "--dry-run=server", "-f", "-")
		if err != nil {
			return fmt.Errorf("the guard still judges: %s", stderr)
		}
		return nil
	})
	m.apply(t)
	must(t, own, "kubectl", "apply", "-n", n.name, "-f", "-")
	const says = "spec.inject.spec.initContainers[0].terminationMessagePolicy: the API server refuses pods that get this: container "
	accepted := func(name, namespace string, want metav1.ConditionStatus) error {
		var object struct {
			Status struct{ Conditions []metav1.Condition }
		}
		expectNoError(t, json.Unmarshal([]byte(must(t, "", "kubectl", "get", name, "-n", namespace, "-o", "json")), &object))
		c := meta.FindStatusCondition(object.Status.Conditions, "Accepted")
		if c == nil || c.Status != want || want == metav1.ConditionFalse && (c.Reason != "Invalid" || !strings.Contains(c.Message, says) || !strings.Contains(c.Message, `"Logs"`)) {
			return fmt.Errorf("%s has the conditions %s", name, pretty(object.Status.Conditions))
		}
		return nil
	}
	for _, object := range []string{"sct/" + m.name, "nsct/unjudged"} {
		eventually(t, soon, func() error { return accepted(object, n.name, metav1.ConditionFalse) })
	}
	for _, target := range []string{"sct/" + m.name, "ns/" + n.name} {
		if out, err := askStatus(t, target); err != nil || !strings.Contains(out, says) {
			t.Errorf("status %s: %v\n%s", target, err, out)
		}
	}
	restore()
	eventually(t, soon, func() error {
		if _, _, err := run(t, m.yaml()+"  suspend: true\n", "kubectl", "apply", "--dry-run=server", "-f", "-"); err == nil {
			return fmt.Errorf("the guard does not judge yet")
		}
		return nil
	})
	m.spec = sidecarSpec
	must(t, m.yaml(), "kubectl", "apply", "-f", "-")
	eventually(t, soon, func() error { return accepted("sct/"+m.name, "", metav1.ConditionTrue) })
}
