package e2e

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// meshPolicy adds a sidecar, as the example of the Kubernetes documentation does, with a volume and a
// label, and without args: the API server refuses an apply configuration with such a list.
const meshPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions:
  - {name: not-there, expression: '!has(object.spec.initContainers) || !object.spec.initContainers.exists(ic, ic.name == "mesh-proxy")'}
  - {name: not-host-network, expression: '!object.spec.?hostNetwork.orValue(false)'}
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{
          metadata: Object.metadata{labels: {"mesh": "on"}},
          spec: Object.spec{
            initContainers: [Object.spec.initContainers{
              name: "mesh-proxy", image: "mesh/proxy:v1.0.0", restartPolicy: "Always",
              ports: [Object.spec.initContainers.ports{containerPort: 15001}],
              volumeMounts: [Object.spec.initContainers.volumeMounts{name: "mesh", mountPath: "/mesh"}]
            }],
            volumes: [Object.spec.volumes{name: "mesh", emptyDir: Object.spec.volumes.emptyDir{medium: "Memory"}}]
          }
        }
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, matchResources: {namespaceSelector: {matchLabels: {mesh: NAME}}}}
`

// What the API server made of a pod by a policy, it makes of it by the template that the policy
// became.
func TestAnImportedPolicyGivesPodsTheSameSidecar(t *testing.T) {
	t.Parallel()
	name := unique("mesh")
	policy := strings.ReplaceAll(meshPolicy, "NAME", name)
	n := newNamespace(t, nil, map[string]string{"mesh": name})
	until := func(want bool) (pod *corev1.Pod) {
		t.Helper()
		eventually(t, soon, func() error {
			var err error
			if pod, err = n.preview(t, newPod("web", nil)); err == nil && (sidecar(pod, "mesh-proxy") != nil) != want {
				err = errors.New(pretty(pod.Spec.InitContainers))
			}
			return err
		})
		return pod
	}
	must(t, policy, "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { _, _, _ = run(t, policy, "kubectl", "delete", "--ignore-not-found", "-f", "-") })
	by := until(true)
	must(t, policy, "kubectl", "delete", "-f", "-")
	until(false)

	template, notes, err := run(t, policy, "pillion-import", "-")
	if err != nil || notes != "" {
		t.Fatalf("%v: %s", err, notes)
	}
	must(t, template, "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { _, _, _ = run(t, template, "kubectl", "delete", "--ignore-not-found", "-f", "-") })
	made := func(pod *corev1.Pod) string {
		containers := pretty([]any{pod.Labels["mesh"], pod.Spec.InitContainers, pod.Spec.Containers, len(pod.Spec.Volumes)})
		return regexp.MustCompile(`kube-api-access-\w+`).ReplaceAllString(containers, "kube-api-access")
	}
	if got := until(true); made(got) != made(by) {
		t.Errorf("the template gives\n%s\nand the policy\n%s", made(got), made(by))
	}
}
