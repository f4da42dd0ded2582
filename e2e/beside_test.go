package e2e

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// policy makes a MutatingAdmissionPolicy for the pods of the namespace, which applies what
// the expression gives, and is asked again after webhooks.
func (n *namespace) policy(t *testing.T, expression string) {
	t.Helper()
	n.policyCalled(t, unique("beside"), admissionregistrationv1.IfNeededReinvocationPolicy, "true", expression)
}

// policyCalled creates a mutating policy with this name, for the pods that meet the condition.
func (n *namespace) policyCalled(t *testing.T, name string, again admissionregistrationv1.ReinvocationPolicyType, condition, expression string) {
	t.Helper()
	must(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  reinvocationPolicy: %[3]s
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  matchConditions: [{name: c, expression: %[4]q}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: %[5]q}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`, name, n.name, again, condition, expression), "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { remove(t, "mutatingadmissionpolicy/"+name, "mutatingadmissionpolicybinding/"+name) })
}

// afterPillion is what a policy applies once the pod has the template's sidecar. The API
// server calls policies before webhooks, and again where a webhook changed the pod. It calls
// only those again that it called before: a matchCondition in place of this one would do
// nothing.
func afterPillion(name, applied string) string {
	return "object.spec.?initContainers.orValue([]).exists(c, c.name == '" + name + "') ? " + applied + " : Object{}"
}

// addsContainer adds a container with a probe.
const addsContainer = `Object{metadata: Object.metadata{labels: {"beside": "yes"}}, spec: Object.spec{containers: [Object.spec.containers{name: "policy", image: "policy:1", ` +
	`readinessProbe: Object.spec.containers.readinessProbe{grpc: Object.spec.containers.readinessProbe.grpc{port: 9000}}}]}}`

// In both orders: a policy comes before Pillion, or acts on what Pillion has done.
func TestAMutatingAdmissionPolicyBesidePillion(t *testing.T) {
	t.Parallel()
	name := served(t, meshSpec).name
	for order, expression := range map[string]string{"before": addsContainer, "after": afterPillion(name, addsContainer)} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, asking(name), nil)
			n.policy(t, expression)
			n.previews(t, soon, newPod("probe", nil), func(pod *corev1.Pod) bool { return sidecar(pod, "policy") != nil })
			web := newPod("web", nil)
			web.Spec.Containers[0].ReadinessProbe = probe("/ready")
			pod := n.mustCreate(t, web)
			if count(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) != 1 || len(pod.Spec.Containers) != 2 {
				t.Errorf("containers %s", containerNames(pod))
			}
			for _, c := range []string{"app", "policy"} {
				if got := environment(sidecar(pod, c), "MESH"); got != name {
					t.Errorf("container %s has MESH=%q, want %s", c, got, name)
				}
			}
			if pod.Labels["beside"] != "yes" || sidecar(pod, "app").ReadinessProbe.HTTPGet.Path != "/app/app" || environment(sidecar(pod, name), "PROBES") != "app=/ready" {
				t.Errorf("label %q, probe %s, probes %q", pod.Labels["beside"], sidecar(pod, "app").ReadinessProbe.HTTPGet.Path, environment(sidecar(pod, name), "PROBES"))
			}
		})
	}
}

// resets gives the sidecar other resources, and one more variable.
func resets(name string) string {
	return afterPillion(name, `Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "`+name+`", env: [Object.spec.initContainers.env{name: "FROM_POLICY", value: "1"}], `+
		`resources: Object.spec.initContainers.resources{requests: {"memory": "32Mi"}, limits: {"memory": "32Mi"}}}]}}`)
}

func TestAPolicyThatChangesASidecarIsKeptOrRefusedAsTheTemplateSays(t *testing.T) {
	t.Parallel()
	changed := func(name string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			s := sidecar(pod, name)
			return s != nil && s.Resources.Limits.Memory().String() == "32Mi" && environment(s, "FROM_POLICY") == "1" && environment(s, "LOG_LEVEL") == "info"
		}
	}
	t.Run("not required", func(t *testing.T) {
		t.Parallel()
		name := newTemplate(t)
		n := newNamespace(t, asking(name), nil)
		n.policy(t, resets(name))
		n.previews(t, soon, newPod("probe", nil), changed(name))
	})
	for verify, says := range map[string][]string{
		"":                                     {`.resources is {"limits":{"memory":"32Mi"},"requests":{"memory":"32Mi"}}; must be {"limits":{"memory":"64Mi"}}`, ".env[name=FROM_POLICY] is present", sinceSays},
		"\nverify: {allow: {resources: true}}": {".env[name=FROM_POLICY] is present", sinceSays},
		"\nverify: {allow: {resources: true, env: [\"FROM_*\"]}}": nil,
	} {
		t.Run("required"+strings.TrimSpace(verify), func(t *testing.T) {
			t.Parallel()
			m, n := newRequiredBy(t, verify+sidecarSpec, enforced())
			n.policy(t, resets(m.name))
			if len(says) == 0 {
				n.previews(t, soon, newPod("probe", nil), changed(m.name))
				return
			}
			var refusal error
			eventually(t, soon, func() error {
				if _, refusal = n.preview(t, newPod("probe", nil)); refusal == nil {
					return fmt.Errorf("the policy is not in force yet, or its change is let through")
				}
				return nil
			})
			for _, text := range says {
				if !strings.Contains(refusal.Error(), text) {
					t.Errorf("the refusal does not say %q: %v", text, refusal)
				}
			}
		})
	}
}

// recommends is what a VerticalPodAutoscaler's webhook does: it sets requests of each
// container, and scales limits that there are. It says nothing to a pod that has them.
func recommends(pod *corev1.Pod) []map[string]any {
	var operations []map[string]any
	for list, containers := range map[string][]corev1.Container{"containers": pod.Spec.Containers, "initContainers": pod.Spec.InitContainers} {
		for i, c := range containers {
			want := corev1.ResourceRequirements{Requests: quantities("cpu", "35m", "memory", "50Mi")}
			if !c.Resources.Limits.Memory().IsZero() {
				want.Limits = quantities("memory", "100Mi")
			}
			if pretty(c.Resources) != pretty(want) {
				operations = append(operations, map[string]any{"op": "add", "path": fmt.Sprintf("/spec/%s/%d/resources", list, i), "value": want})
			}
		}
	}
	return operations
}

// A webhook before Pillion sees the sidecar only if it is called again. What a required template
// allows of it is told above.
func TestAVerticalPodAutoscalerBesidePillion(t *testing.T) {
	t.Parallel()
	const never, ifNeeded = admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy
	for _, test := range []struct {
		why, prefix string
		again       admissionregistrationv1.ReinvocationPolicyType
		ofSidecar   string // the sidecar's memory request in the end
		calls       int    // of the other webhook for a pod
	}{
		{"before Pillion", "aa-vpa", never, "64Mi", 1},
		{"before Pillion and again", "aa-vpa", ifNeeded, "50Mi", 2},
		{"after Pillion", "zz-vpa", never, "50Mi", 1},
		{"after Pillion and again", "zz-vpa", ifNeeded, "50Mi", 2},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			name := newTemplate(t)
			newNamespace(t, asking(name), nil).besideVPA(t, name, test.prefix, test.again, test.ofSidecar, test.calls)
		})
	}
}

func (n *namespace) besideVPA(t *testing.T, name, prefix string, again admissionregistrationv1.ReinvocationPolicyType, ofSidecar string, wantCalls int) {
	t.Helper()
	called := otherWebhook(t, n, prefix, again, recommends)
	eventually(t, soon, func() error {
		before := called.Load()
		if _, err := n.preview(t, newPod("probe", nil)); called.Load() == before {
			return fmt.Errorf("the other webhook is not called yet: %v", err)
		}
		return nil
	})
	before := called.Load()
	web := newPod("web", nil)
	web.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	pod, err := n.create(t, web)
	if got := int(called.Load() - before); got > wantCalls {
		t.Errorf("the other webhook is called %d times for a pod, want at most %d", got, wantCalls)
	}
	expectNoError(t, err)
	if app := sidecar(pod, "app").Resources; app.Requests.Memory().String() != "50Mi" || app.Limits.Memory().String() != "100Mi" {
		t.Errorf("the app has %s, want what the other webhook set", pretty(app))
	}
	s := sidecar(pod, name)
	if got := s.Resources.Requests.Memory().String(); got != ofSidecar {
		t.Errorf("the sidecar requests %s of memory, want %s", got, ofSidecar)
	}
	if ofSidecar == "64Mi" {
		return // in a copy the other webhook sees the sidecar
	}
	// Nothing flaps: a copy of the pod stays as it is.
	second := n.mustCreate(t, copyOf(pod))
	if got, want := pretty(second.Spec.InitContainers), pretty(pod.Spec.InitContainers); got != want {
		t.Errorf("a copy of the pod has\n%s\nwant\n%s", got, want)
	}
	if got, want := second.Annotations[statusAnnotation], pod.Annotations[statusAnnotation]; got != want {
		t.Errorf("its status is %s, want %s", got, want)
	}
}
