package e2e

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
