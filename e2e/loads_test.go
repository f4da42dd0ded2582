package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newNamespaceOfSlowTemplates is a namespace with templates of its own, of which four cost a pod about as much as
// all may together. More than that is skipped.
func newNamespaceOfSlowTemplates(t *testing.T, count int, labels map[string]string) *namespace {
	t.Helper()
	n := newNamespace(t, nil, labels)
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	loop := fmt.Sprintf("%[1]s.map(a, %[1]s.map(b, %[1]s.map(c, [1,2,3].map(d, d + size(pod.spec.containers)).size()).size()).size()).size()", ten)
	for i := range count {
		must(t, fmt.Sprintf(`
apiVersion: pillion.dev/v1alpha1
kind: NamespacedSidecarTemplate
metadata: {name: slow-%[1]d}
spec:
  match: {}
  onError: Skip
  variables:
  - {name: a, expression: "%[2]s"}
  - {name: b, expression: "%[2]s"}
  - {name: c, expression: "%[2]s"}
  inject: {metadata: {annotations: {"slow.example.com/%[1]d": "${string(variables.a + variables.b + variables.c)}"}}}`, i, loop), "kubectl", "apply", "-n", n.name, "-f", "-")
	}
	for i := range count {
		n.waitReady(t, fmt.Sprint("slow-", i), "Compiled")
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

// floodWithPods has so many dry runs of a pod in flight until the returned function is called, which returns the pods
// that were created, and how many were refused.
func (n *namespace) floodWithPods(t *testing.T, clients int, pod *corev1.Pod) (stop func() (created []*corev1.Pod, refused map[string]int)) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	var created []*corev1.Pod
	refused := map[string]int{}
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				made, err := n.client.CoreV1().Pods(n.name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				mu.Lock()
				if err == nil {
					created = append(created, made)
				} else if ctx.Err() == nil {
					refused[err.Error()[strings.LastIndex(err.Error(), "(")+1:]]++
				}
				mu.Unlock()
			}
		})
	}
	return func() ([]*corev1.Pod, map[string]int) {
		cancel()
		all.Wait()
		return created, refused
	}
}

// median creates pods in a namespace for a while, one after the other, and returns how long half of them took at most.
func (n *namespace) median(t *testing.T, lasting time.Duration, want string) time.Duration {
	t.Helper()
	var took []time.Duration
	for began := time.Now(); time.Since(began) < lasting; {
		start := time.Now()
		pod, err := n.preview(t, newPod("web", nil))
		if took = append(took, time.Since(start)); err != nil || sidecar(pod, want) == nil {
			t.Errorf("a pod of another namespace: %v, containers %s", err, containerNames(pod))
			break
		}
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// One namespace costs the pods of the others no more than its share, whatever its templates cost.
func TestSlowTemplatesOfATenantDoNotHoldOthersUp(t *testing.T) {
	shop := newNamespace(t, asking("fluent-bit"), nil)
	injects(t, shop, "fluent-bit")
	idle := shop.median(t, time.Second, "fluent-bit")
	var stops []func() ([]*corev1.Pod, map[string]int)
	for range 2 {
		n := newNamespaceOfSlowTemplates(t, 20, nil)
		stops = append(stops, n.floodWithPods(t, 8, slowPod()))
	}
	loaded := shop.median(t, 4*time.Second, "fluent-bit")
	for _, stop := range stops {
		created, refused := stop()
		t.Logf("%d slow pods were created, refused: %v", len(created), refused)
	}
	t.Attr("load", fmt.Sprintf("sixteen slow pods in flight: pods of another namespace take %s, idle %s (medians)", loaded, idle))
	if loaded > 500*time.Millisecond {
		t.Errorf("pods of another namespace take %s beside sixteen slow ones, %s without (medians)", loaded, idle)
	}
}

// A namespace that comes beside slow pods has its labels from the first moment, however large it is.
func TestANamespaceHasItsLabelsBesideSlowPods(t *testing.T) {
	m, asks := newRequiredBy(t, sidecarSpec, nil)
	team := labelOf(t, asks.name, "team")
	n := newNamespaceOfSlowTemplates(t, 20, nil)
	stop := n.floodWithPods(t, 16, slowPod())
	defer stop()
	for i := range 3 {
		labels := map[string]string{"team": team}
		for l := range labelsOfOne {
			labels[largeLabel(l)] = strings.Repeat("v", 61)
		}
		large := &namespace{name: unique(fmt.Sprint("large-", i)), client: client}
		made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: large.name, Labels: labels, ManagedFields: []metav1.ManagedFieldsEntry{{}},
		}}, metav1.CreateOptions{})
		expectNoError(t, err)
		t.Cleanup(func() {
			if err := client.CoreV1().Namespaces().Delete(context.Background(), large.name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		if made.Labels[requiredLabel] != "true" || made.Labels[injectionLabel] == "" {
			t.Errorf("the new namespace has %s=%q and %s=%q", requiredLabel, made.Labels[requiredLabel], injectionLabel, made.Labels[injectionLabel])
		}
		pod := newPod("web", nil)
		pod.Spec.AutomountServiceAccountToken, pod.Spec.ServiceAccountName = new(false), "default"
		eventually(t, soon, func() error { // its service account comes by a controller
			_, err := client.CoreV1().ServiceAccounts(large.name).Get(t.Context(), "default", metav1.GetOptions{})
			return err
		})
		if got, err := large.preview(t, pod); err == nil && sidecar(got, m.name) == nil {
			t.Errorf("a pod right after it has the containers %s", containerNames(got))
		}
	}
}

// A namespace that fails open gets no pod without a required template for want of time.
func TestNoPodIsBareOfARequiredTemplateForWantOfTime(t *testing.T) {
	m, asks := newRequiredBy(t, sidecarSpec, nil)
	n := newNamespaceOfSlowTemplates(t, 2, map[string]string{"team": labelOf(t, asks.name, "team"), "pillion.dev/injection": "enabled"})
	injects(t, n, m.name)
	stop := n.floodWithPods(t, 40, slowPod())
	time.Sleep(8 * time.Second)
	created, refused := stop()
	for _, pod := range created {
		if sidecar(pod, m.name) == nil {
			t.Errorf("a pod has %d containers, and none of %s", len(pod.Spec.Containers), m.name)
		}
	}
	t.Logf("%d pods were created, refused: %v", len(created), refused)
	if len(created) == 0 {
		t.Error("no pod was created")
	}
}
