package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector/owner"
)

// shareOf are the names among so many that the canary's share has in the namespace, if workloads of the
// kind are called so.
func (n *namespace) shareOf(kind, prefix string, count, percent int) map[string]bool {
	in := map[string]bool{}
	for i := range count {
		name := fmt.Sprint(prefix, i)
		if owner.Share(n.name, owner.Workload{Kind: kind, Name: name}) < percent {
			in[name] = true
		}
	}
	return in
}

// Twenty Deployments, whose pods the real controllers make. Nobody gets a canary that is suspended.
func TestACanaryGetsItsShareOfTheWorkloadsAndIsPromoted(t *testing.T) {
	t.Parallel()
	const deployments, percent, first, next = 20, 30, "registry.example.com/ship:1", "registry.example.com/ship:2"
	stable, n := rolled(t, first)
	canary := manifest{name: stable.name + "-next", spec: strings.NewReplacer(
		"match: {namespaceSelector: {matchLabels: {team: NAME}}}\nrequired: true\n", fmt.Sprintf("canary: {of: %s, percent: %d}\n", stable.name, percent),
		"NAME", stable.name, "IMAGE", next, "USUAL", "info").Replace(rolledSpec)}
	canary.apply(t)
	gets := func(image string) {
		t.Helper()
		for name := range n.shareOf("Pod", "probe-", deployments, percent) {
			n.previews(t, inForce, newPod(name, nil), func(pod *corev1.Pod) bool { return sidecar(pod, stable.name).Image == image })
		}
	}
	gets(next)
	n.standInForAKubelet(t)
	spec := newPod("", nil).Spec
	spec.SchedulerName = "nobody"
	for i := range deployments {
		n.deploy(t, fmt.Sprint("web-", i), 1, spec)
	}
	got, want := map[string]bool{}, n.shareOf("Deployment", "web-", deployments, percent)
	for _, pod := range n.waitPods(t, deployments, "") {
		if sidecar(&pod, stable.name).Image == next {
			got[pod.Labels["app"]] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d %% of %d Deployments are %v, want %v", percent, deployments, got, want)
	}

	suspend := "kubectl patch sct " + canary.name + ` --type=merge -p '{"spec":{"suspend":%t}}'`
	does(t, fmt.Sprintf(suspend, true))
	gets(first)
	wantNoError(t, refusedWith(attempt(t, "", "pillion", "promote", canary.name), "the canary "+canary.name+" is suspended"))
	does(t, fmt.Sprintf(suspend, false))
	gets(next)
	must(t, "", "pillion", "promote", canary.name)
	n.previews(t, inForce, newPod("any", nil), func(pod *corev1.Pod) bool { return sidecar(pod, stable.name).Image == next })
	// The promotion changes nothing for pods of the canary.
	wantTexts(t, "rollout", must(t, "", "pillion", "rollout", "ns/"+n.name, "--dry-run"), fmt.Sprintf("%d of %d pods up to date", len(want), deployments))
}
