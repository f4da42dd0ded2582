package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// exceptionLasts is how long the exception of the test lasts: real clocks decide, of the replicas and
// of the API server.
const exceptionLasts = 25 * time.Second

// An exception of a required template, and what each of those sees of it who has to do with it: before
// its end, and after.
func TestAnExceptionOfARequiredTemplateEndsByTheClock(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, nil)
	team := n.object(t).Labels["team"]
	legacy := func(name string) *corev1.Pod {
		pod := newPod(name, nil)
		pod.Labels = map[string]string{"app": "web"}
		return pod
	}
	until := time.Now().Add(exceptionLasts).UTC().Truncate(time.Second).Add(time.Second)
	exception := fmt.Sprintf(`{"spec":{"exceptions":[{"name":"legacy","podSelector":{"matchLabels":{"app":"web"}},"until":%q,"reason":"OPS-123: moves"}]}}`, until.Format(time.RFC3339))
	must(t, "", "kubectl", "patch", "sidecartemplate", m.name, "--type=merge", "-p", exception)
	n.previews(t, soon, legacy("probe"), func(pod *corev1.Pod) bool { return sidecar(pod, m.name) == nil })

	// The policy for the template, with another namespace that Pillion has nothing to do with: there it
	// alone decides.
	alone := newNamespace(t, nil, map[string]string{"team": team + "-alone"})
	policy := strings.ReplaceAll(must(t, "", "pillion", "policy", m.name, "--cluster"), "- "+team+"\n", "- "+team+"-alone\n")
	if !strings.Contains(policy, "new pods that the exception legacy selects, until "+until.Format(time.RFC3339)+": OPS-123: moves") {
		t.Errorf("the policy does not say whom it spares:\n%s", policy)
	}
	must(t, policy, "kubectl", "apply", "-f", "-")
	t.Cleanup(func() {
		remove(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", "required-"+m.name+".pillion.dev", "--ignore-not-found")
	})
	eventually(t, soon, func() error { // it is in force
		if _, err := alone.preview(t, newPod("probe", nil)); err == nil || !strings.Contains(err.Error(), "lacks its init container "+m.name) {
			return fmt.Errorf("a pod without the sidecar: %v", err)
		}
		return nil
	})
	if _, err := alone.preview(t, legacy("probe")); err != nil {
		t.Errorf("the policy refuses an excepted pod: %v", err)
	}

	// The team is told at the apply, and its pods run without the sidecar.
	said := kubectlSays(t, workloadOf("Deployment", "web", "", "", ""), "-n", n.name, "apply", "-f", "-")
	told := "the pod is excepted until " + until.Format(time.RFC3339) + " by the exception legacy: OPS-123: moves"
	wantWarnings(t, said, "pods of Deployment web: Excepted: without "+m.name+": it is required here, and "+told)
	running := n.waitPods(t, 1, "app=web")[0]
	if sidecar(&running, m.name) != nil {
		t.Errorf("an excepted pod has %s", containerNames(&running))
	}
	if out := must(t, "", "pillion", "explain", "-n", n.name, "deploy/web"); !strings.Contains(strings.Join(strings.Fields(out), " "), told) {
		t.Errorf("explain says\n%s", out)
	}
	n.counts(t, "ns/"+n.name, [4]int{1, 0, 0, 0})
	if time.Now().After(until) {
		t.Fatalf("all this took longer than %s", exceptionLasts)
	}

	// After the end pods are injected and verified, and nobody opts out. The pod that runs goes on.
	time.Sleep(time.Until(until))
	opts := legacy("opts-out")
	opts.Annotations = asking("false")
	for _, pod := range []*corev1.Pod{legacy("late"), opts} {
		if got := n.mustCreate(t, pod); sidecar(got, m.name) == nil {
			t.Errorf("after the end pod %s has %s", got.Name, containerNames(got))
		}
	}
	forged := legacy("forged")
	forged.CreationTimestamp = metav1.NewTime(until.Add(-time.Hour))
	for _, pod := range []*corev1.Pod{legacy("late"), forged} {
		if _, err := alone.preview(t, pod); err == nil || !strings.Contains(err.Error(), "lacks its init container "+m.name) {
			t.Errorf("after the end the policy says of pod %s: %v", pod.Name, err)
		}
	}
	for what, patch := range map[string]string{"another image": `{"spec":{"containers":[{"name":"app","image":"nginx:1.30"}]}}`, "another label": `{"metadata":{"labels":{"more":"x"}}}`} {
		if _, err := n.client.CoreV1().Pods(n.name).Patch(t.Context(), running.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s of the pod that was excepted: %v", what, err)
		}
	}
	wantWarnings(t, n.applyDry(t, workloadOf("Deployment", "web", "", "", "")))
	n.counts(t, "ns/"+n.name, [4]int{3, 2, 1, 0})
}
