package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// newNamespaceOfSlowTemplates is a namespace with templates of its own, of which four cost a pod about as much as
// all may together. More than that is skipped.
func newNamespaceOfSlowTemplates(t *testing.T, count int, labels map[string]string) *namespace {
	t.Helper()
	n := newNamespace(t, nil, labels)
	for i := range count {
		name := fmt.Sprint("slow-", i)
		must(t, strings.NewReplacer("NAME", name, "TEN", "[0,1,2,3,4,5,6,7,8,9]").Replace(slowTemplate), "kubectl", "apply", "-n", n.name, "-f", "-")
		n.waitReady(t, name, "Compiled")
	}
	return n
}

// slowPod is a pod of 115 containers.
func slowPod() *corev1.Pod {
	pod := newPod("slow", nil)
	for i := range 114 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "nginx:1.29"})
	}
	return pod
}

// A namespace that fails open gets no pod without a required template for want of time.
func TestNoPodIsBareOfARequiredTemplateForWantOfTime(t *testing.T) {
	m, asks := newRequiredBy(t, sidecarSpec, nil)
	n := newNamespaceOfSlowTemplates(t, 2, map[string]string{"team": asks.labels(t)["team"], "pillion.dev/injection": "enabled"})
	injects(t, n, m.name)
	slow := slowPod()
	load := newLoad(t, 40, 0, func(ctx context.Context, _ string) (string, error) { return n.outcome(ctx, slow, m.name) })
	time.Sleep(8 * time.Second)
	load.end()
	t.Log(load)
	if c := load.counts(); c[bare] > 0 || c[injected] == 0 {
		t.Errorf("slow pods are %s, want some injected, and none bare", load)
	}
}
