package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/injector/owner"
)

// Twenty Deployments, whose pods the real controllers make, with a required template and a canary of
// it: first for some of them, then for more, then for all, by a promotion and a rollout.
func TestACanaryGetsItsShareOfTheWorkloadsAndIsPromoted(t *testing.T) {
	t.Parallel()
	const deployments = 20
	stable, n := rolled(t, "registry.example.com/ship:1")
	n.standInForAKubelet(t)
	canary := manifest{name: stable.name + "-next"}
	percent := func(share int) {
		t.Helper()
		canary.spec = strings.NewReplacer(
			"match: {namespaceSelector: {matchLabels: {team: NAME}}}\nrequired: true\n", fmt.Sprintf("canary: {of: %s, percent: %d}\n", stable.name, share),
			"NAME", stable.name, "IMAGE", "registry.example.com/ship:2", "USUAL", "info").Replace(rolledSpec)
		canary.apply(t)
		// A bare pod that is the last of the share, and one that is the first beside it.
		names := map[bool]string{}
		for i := 0; names[true] == "" || names[false] == ""; i++ {
			name := fmt.Sprint("probe-", i)
			if place := owner.Share(n.name, owner.Workload{Kind: "Pod", Name: name}); place == share-1 || place == share {
				names[place < share] = name
			}
		}
		for in, name := range names {
			want := "registry.example.com/ship:1"
			if in {
				want = "registry.example.com/ship:2"
			}
			n.previews(t, inForce, newPod(name, nil), func(pod *corev1.Pod) bool { return sidecar(pod, stable.name).Image == want })
		}
		eventually(t, soon, func() error {
			if s := canary.object(t).Status; s.Hash == "" || len(s.Conditions) == 0 || s.Conditions[0].Status != metav1.ConditionTrue {
				return fmt.Errorf("the canary's status is %s", pretty(s))
			}
			return nil
		})
	}
	inShare := func(share int) map[string]bool {
		in := map[string]bool{}
		for i := range deployments {
			name := fmt.Sprint("web-", i)
			if owner.Share(n.name, owner.Workload{Kind: "Deployment", Name: name}) < share {
				in[name] = true
			}
		}
		return in
	}
	percent(30)
	spec := newPod("", nil).Spec
	spec.SchedulerName = "nobody"
	for i := range deployments {
		n.deploy(t, fmt.Sprint("web-", i), 1, spec)
	}
	// versions has the names of the Deployments whose pods have the sidecar's image of that version.
	versions := func(image string) map[string]bool {
		of := map[string]bool{}
		for _, pod := range n.waitPods(t, deployments, "") {
			if c := sidecar(&pod, stable.name); c != nil && c.Image == image {
				of[pod.Labels["app"]] = true
			}
		}
		return of
	}
	got := versions("registry.example.com/ship:2")
	if !maps.Equal(got, inShare(30)) || len(got) == 0 || len(got) == deployments {
		t.Errorf("30 %% of %d Deployments are %v, want %v", deployments, got, inShare(30))
	}
	want := canary.object(t).Status.Hash
	for name := range got {
		if out := must(t, "", "pillion", "explain", "-n", n.name, "deploy/"+name); !strings.Contains(out, "canary "+canary.name) || !strings.Contains(out, want) {
			t.Errorf("explain deploy/%s says\n%s", name, out)
		}
		break
	}
	upToDate := func(want int) {
		t.Helper()
		if out := must(t, "", "pillion", "rollout", "ns/"+n.name, "--dry-run"); !strings.Contains(out, fmt.Sprintf("%d of %d pods up to date", want, deployments)) {
			t.Errorf("rollout --dry-run says\n%s\nwant %d", out, want)
		}
	}
	upToDate(deployments)

	// A larger share has all of the smaller one.
	percent(60)
	more := len(inShare(60)) - len(got)
	upToDate(deployments - more)

	// Each replica counts the pods by version.
	for _, r := range shared.Replicas(ground.Namespace) {
		for version, pods := range map[string]int{canary.name: len(got), "(stable)": deployments - len(got)} {
			eventually(t, time.Minute, func() error {
				return metric(r, fmt.Sprintf("pillion_pods{ready=\"true\",template=%q,version=%q} %d\n", stable.name, version, pods))
			})
		}
	}

	// The promotion changes nothing for pods of the canary.
	_, before := n.images(t, stable.name)
	out := must(t, "", "pillion", "promote", canary.name)
	if !strings.Contains(out, canary.name+": deleted") {
		t.Errorf("promote says\n%s", out)
	}
	eventually(t, soon, func() error {
		if s := stable.object(t).Status; s.Hash != want {
			return fmt.Errorf("after the promotion the template has the version %s, want the canary's, %s", s.Hash, want)
		}
		return nil
	})
	upToDate(len(got))
	must(t, "", "pillion", "rollout", "ns/"+n.name, "--timeout=60s")
	images, after := n.images(t, stable.name)
	kept := 0
	for name, uid := range before {
		if after[name] == uid {
			kept++
		}
	}
	if howMany(images, "registry.example.com/ship:2") != deployments || kept != len(got) {
		t.Errorf("after the rollout the images are %v, and %d pods are still there, want the %d of the canary", images, kept, len(got))
	}
}

// A suspended canary selects nobody and is not promoted. A promotion loses nothing that somebody else writes meanwhile.
func TestASuspendedCanarySelectsNobodyAndIsNotPromoted(t *testing.T) {
	t.Parallel()
	stable := served(t, sidecarSpec)
	canary := manifest{name: stable.name + "-next"}
	canary.forget(t)
	next := manifest{stable.name, strings.Replace("\ncanary: {of: NAME, percent: 100}"+sidecarSpec, "[error, info, debug]", "[error, info]", 1)}
	must(t, next.as(canary.name), "kubectl", "apply", "-f", "-")
	n := newNamespace(t, asking(stable.name), open())
	debug := newPod("web", map[string]string{stable.name + ".pillion.dev/log-level": "debug"})
	refused := func(want bool) {
		t.Helper()
		eventually(t, inForce, func() error {
			if _, err := n.preview(t, debug); apierrors.IsForbidden(err) != want {
				return fmt.Errorf("a pod with a level that only the stable version has: %v", err)
			}
			return nil
		})
	}
	refused(true)
	suspend := func(value bool) {
		t.Helper()
		must(t, "", "kubectl", "patch", "sct", canary.name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"suspend":%v}}`, value))
	}
	suspend(true)
	refused(false)
	if out := must(t, "", "pillion", "explain", "-n", n.name, "ns/"+n.name); strings.Contains(out, "selected: version") {
		t.Errorf("explain says\n%s", out)
	}
	if _, stderr, err := run(t, "", "pillion", "promote", canary.name); err == nil || !strings.Contains(stderr, "the canary "+canary.name+" is suspended") {
		t.Errorf("promote of a suspended canary: %v\n%s", err, stderr)
	}
	suspend(false)
	refused(true)
	must(t, "", "kubectl", "label", "sct", stable.name, "example.com/by=another")
	must(t, "", "pillion", "promote", canary.name)
	if got := must(t, "", "kubectl", "get", "sct", stable.name, canary.name, "--ignore-not-found", "-o", "jsonpath={.items[*].metadata.name} {.items[*].metadata.labels} {.items[*].spec.parameters[0].enum}"); got != stable.name+` {"example.com/by":"another"} ["error","info"]` {
		t.Errorf("after the promotion: %s", got)
	}
}

// as is the template under another name. NAME in its spec stays.
func (m manifest) as(name string) string {
	return strings.Replace(m.yaml(), "metadata: {name: "+m.name+"}", "metadata: {name: "+name+"}", 1)
}

// forget deletes the template after the test.
func (m manifest) forget(t *testing.T) {
	t.Cleanup(func() { _, _, _ = run(t, "", "kubectl", "delete", "sct", m.name, "--ignore-not-found") })
}
