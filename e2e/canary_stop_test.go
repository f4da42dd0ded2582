package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/injector/owner"
)

// canarySpec is a template or, with CANARY, a canary. Its sidecar listens on PORT, and ends at once on
// a port that there is not.
const canarySpec = `
CANARY
inject:
  spec:
    initContainers:
    - {name: NAME, restartPolicy: Always, image: "IMAGE", env: [{name: STANDIN_LISTEN, value: "PORT"}]}
`

// ofCanary returns a template called name, whose sidecar has the name of the stable one.
func ofCanary(name, stable, canary, image, port string) string {
	m := manifest{name: stable, spec: strings.NewReplacer("CANARY", canary, "IMAGE", image, "PORT", port).Replace(canarySpec)}
	return m.as(name)
}

// as is the template under another name. NAME in its spec stays.
func (m manifest) as(name string) string {
	return strings.Replace(m.yaml(), "metadata: {name: "+m.name+"}", "metadata: {name: "+name+"}", 1)
}

// stopped returns the condition Stopped of a template, nil for none.
func stopped(t *testing.T, name string) *metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(manifest{name: name}.object(t).Status.Conditions, "Stopped")
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// tenDeployments are names of Deployments. Two of them are in a share of 20 %.
func tenDeployments(namespace string) (names []string, inShare map[string]bool) {
	inShare = map[string]bool{}
	for i := 0; len(names) < 10; i++ {
		name := fmt.Sprintf("web-%d", i)
		in := owner.Share(namespace, owner.Workload{Kind: "Deployment", Name: name}) < 20
		if in && len(inShare) == 2 || !in && len(names)-len(inShare) == 8 {
			continue
		}
		names = append(names, name)
		if in {
			inShare[name] = true
		}
	}
	return names, inShare
}

// A canary with a broken sidecar gets 20 % of ten Deployments, stops, and no other pod gets it. How a good
// one is promoted is told in canary_test.go.
func TestOnANodeACanaryThatFailsStopsByItself(t *testing.T) {
	t.Parallel()
	const good, bad = "2020", "70000"
	stable := manifest{name: unique("side"), spec: strings.NewReplacer("CANARY", "order: 1", "IMAGE", "ship.example.com/shipper:1", "PORT", good).Replace(canarySpec)}
	stable.apply(t)
	stable.waitServed(t)
	n := newNamespace(t, asking(stable.name), map[string]string{calledFor: "enabled"})
	names, inShare := tenDeployments(n.name)
	for _, name := range names {
		n.deploy(t, name, 1, newRunningPod("", nil).Spec)
	}
	rolledOut := func() {
		t.Helper()
		for _, name := range names {
			must(t, "", "kubectl", "-n", n.name, "rollout", "status", "deployment/"+name, "--timeout=120s")
		}
	}
	rolledOut()
	has := func(pod *corev1.Pod) bool {
		c := sidecar(pod, stable.name)
		return c != nil && environment(c, "STANDIN_LISTEN") == bad
	}
	// broken returns how many pods of each Deployment have the canary.
	broken := func() (deployments map[string]int) {
		t.Helper()
		pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
		expectNoError(t, err)
		deployments = map[string]int{}
		for _, pod := range pods.Items {
			if has(&pod) && pod.DeletionTimestamp == nil {
				deployments[pod.Labels["app"]]++
			}
		}
		return deployments
	}
	next := stable.name + "-next"
	manifest{name: next}.forget(t)
	must(t, ofCanary(next, stable.name, "canary: {of: NAME, percent: 20}", "ship.example.com/shipper:1", bad), "kubectl", "apply", "-f", "-")
	n.previews(t, inForce, workloadPod(anyOf(inShare)), has)

	restart := func() {
		t.Helper()
		for _, name := range names {
			must(t, "", "kubectl", "-n", n.name, "rollout", "restart", "deployment/"+name)
		}
	}
	restart()
	var condition *metav1.Condition
	eventually(t, 4*time.Minute, func() error {
		if condition = stopped(t, next); condition == nil {
			return fmt.Errorf("the canary is not stopped")
		}
		return nil
	})
	got := broken()
	for name := range got {
		if !inShare[name] || got[name] != 1 {
			t.Errorf("%d pods of %s have the canary; its share is %v", got[name], name, inShare)
		}
	}
	if len(got) != 2 || condition.Reason != "ContainersRestart" || !strings.HasPrefix(condition.Message, "2 of 2 workloads fail with the canary, 0 of ") {
		t.Errorf("%d Deployments have it; the condition is %s", len(got), pretty(condition))
	}
	// No other pod gets it, and the pods that have it are made anew without it.
	restart()
	rolledOut()
	eventually(t, running, func() error {
		if got := broken(); len(got) > 0 {
			return fmt.Errorf("%v have the canary", got)
		}
		return nil
	})
	eventually(t, soon, func() error {
		if out := must(t, "", "kubectl", "describe", "sct", next); !strings.Contains(out, "CanaryStopped") {
			return fmt.Errorf("describe says\n%s", out)
		}
		return nil
	})
	for _, r := range shared.Replicas(ground.Namespace) {
		if err := metric(r, `pillion_template_canary_stopped{template="`+next+`"} 1`); err != nil {
			t.Error(err)
		}
	}
	if out := must(t, "", "pillion", "explain", "deploy/"+anyOf(inShare), "-n", n.name); !strings.Contains(out, "stopped") {
		t.Errorf("explain says\n%s", out)
	}
}

func anyOf(set map[string]bool) string {
	for name := range set {
		return name
	}
	return ""
}

// workloadPod is a pod as the controllers of a Deployment make it.
func workloadPod(deployment string) *corev1.Pod {
	pod := newRunningPod("", nil)
	pod.Labels = map[string]string{"app": deployment, "pod-template-hash": "abc"}
	pod.GenerateName = deployment + "-abc-"
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment + "-abc", UID: "1", Controller: new(true)}}
	return pod
}

// forget deletes the template after the test.
func (m manifest) forget(t *testing.T) {
	t.Cleanup(func() { _, _, _ = run(t, "", "kubectl", "delete", "sct", m.name, "--ignore-not-found") })
}
