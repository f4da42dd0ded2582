package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/workload"
)

// What the command line says of a workload's pods is what the real controllers, the real API
// server and the real Pillion make of them.
func TestThePodsOfWorkloadsAreAsTheCommandLineForetells(t *testing.T) {
	t.Parallel()
	team, node := unique("team"), unique("node")
	one := manifest{name: unique("look"), spec: strings.Replace(looking, "TEAM", team, 1)}
	two := manifest{name: unique("select"), spec: strings.Replace(selecting, "TEAM", team, 1)}
	one.apply(t)
	two.apply(t)
	n := newNamespace(t, nil, map[string]string{"team": team})
	eventually(t, soon, func() error {
		pod := newPod("db-0", nil)
		pod.Labels = map[string]string{"apps.kubernetes.io/pod-index": "0"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Any", Name: "any", UID: "1", Controller: new(true)}}
		got, err := n.preview(t, pod)
		if err == nil && (sidecar(got, "look") == nil || got.Annotations["example.com/index"] == "") {
			err = errors.New("the templates are not in force yet")
		}
		return err
	})
	plain := newNamespace(t, nil, map[string]string{injectionLabel: "disabled"})
	eventually(t, soon, func() error { return n.hasInjection(t, "enabled") })
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	temporary(t, client.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"e2e": node}}, Status: ready})

	workloads := strings.NewReplacer("CONTAINERS", `{containers: [{name: app, image: "a:1"}]}`, "NODE", node).Replace(createdWorkloads)
	must(t, workloads, "kubectl", "-n", n.name, "apply", "-f", "-")
	// A run is due at once.
	must(t, fmt.Sprintf(`{"status": {"lastScheduleTime": %q}}`, time.Now().Add(-5*time.Minute).UTC().Format(time.RFC3339)),
		"kubectl", "-n", n.name, "patch", "cronjob", "nightly", "--subresource=status", "--type=merge", "--patch-file=/dev/stdin")
	foretold, printed := foretell(t, n, workloads, one, two)
	for owner, of := range map[string]string{"Deployment/web": "web-", "StatefulSet/db": "db-", "DaemonSet/agent": "agent-", "Job/work": "work-", "CronJob/nightly": "nightly-"} {
		var real corev1.Pod
		eventually(t, soon, func() error {
			pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, of) })
			if i < 0 {
				return errors.New("there is no pod of " + owner)
			}
			real = pods.Items[i]
			return nil
		})
		// What API servers add to every pod they add to the one that was foretold, too.
		pod := foretold[owner]
		pod.Namespace = plain.name
		stored, err := plain.preview(t, pod)
		if err != nil {
			t.Errorf("%s: %v", owner, err)
			continue
		}
		random := strings.NewReplacer(n.name, "NAMESPACE", plain.name, "NAMESPACE", node, "NODE", `"`+workload.AssumedNode+`"`, `"NODE"`, `\"`+workload.AssumedNode+`\"`, `\"NODE\"`)
		got, want := random.Replace(comparable(t, &real)), random.Replace(comparable(t, stored))
		if got != want {
			t.Errorf("%s: the pod is\n%s\nand the command line foretells\n%s", owner, got, want)
		}
		if sidecar(&real, "look") == nil || printed[owner] != pretty(sidecar(foretold[owner], "look")) {
			t.Errorf("%s: the pod has the containers %s, and inject prints\n%s", owner, containerNames(&real), printed[owner])
		}
	}
}

// foretell returns the pod of each workload as inject makes it of the pod that its
// controller creates, and the sidecar that inject prints for the workload.
func foretell(t *testing.T, n *namespace, workloads string, ms ...manifest) (pods map[string]*corev1.Pod, printed map[string]string) {
	t.Helper()
	dir, file := t.TempDir(), inFile(t, "namespace.yaml", must(t, "", "kubectl", "get", "namespace", n.name, "-o", "yaml"))
	for _, m := range ms {
		expectNoError(t, os.WriteFile(filepath.Join(dir, m.name+".yaml"), []byte(m.yaml()), 0o600))
	}
	inject := func(in string) string {
		return must(t, in, "pillion", "inject", "-f", "-", "-o", "json", "--templates", dir, "--namespace-file", file)
	}
	each := func(text string, f func(workload.Pod)) {
		documents, err := workload.Parse([]byte(text))
		expectNoError(t, err)
		for _, d := range documents {
			if _, _, err := workload.Change(d.Object, func(p workload.Pod) (map[string]any, error) { f(p); return p.Object, nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	pods, printed = map[string]*corev1.Pod{}, map[string]string{}
	each(workloads, func(p workload.Pod) {
		created := p.Created(n.name)
		created["apiVersion"], created["kind"] = "v1", "Pod"
		data, err := json.Marshal(created)
		expectNoError(t, err)
		each(inject(string(data)), func(injected workload.Pod) { pods[p.Owner] = decoded(t, injected.Object) })
	})
	out := inject(workloads)
	if strings.Contains(out, `"ownerReferences":`) || strings.Contains(out, `"claimName":`) {
		t.Errorf("inject prints what only controllers add:\n%s", out)
	}
	each(out, func(p workload.Pod) { printed[p.Owner] = pretty(sidecar(decoded(t, p.Object), "look")) })
	return pods, printed
}

func decoded(t *testing.T, pod map[string]any) *corev1.Pod {
	t.Helper()
	data, err := json.Marshal(pod)
	expectNoError(t, err)
	var p corev1.Pod
	expectNoError(t, json.Unmarshal(data, &p))
	return &p
}

var (
	timeOfJob = regexp.MustCompile(`nightly-[0-9]{8}`)
	tokenName = regexp.MustCompile(`kube-api-access-[a-z0-9]+`)
)

// comparable is a pod as text, without what is random: UIDs, hashes and the time of a run.
func comparable(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	p := pod.DeepCopy()
	if p.Labels["apps.kubernetes.io/pod-index"] == "" {
		p.Name = ""
	}
	p.UID, p.ResourceVersion, p.Generation, p.CreationTimestamp, p.ManagedFields, p.Status = "", "", 0, metav1.Time{}, nil, corev1.PodStatus{}
	delete(p.Annotations, statusAnnotation) // it has digests of the random values
	// Hashes count the installer's values, which the command line has not.
	maps.DeleteFunc(p.Labels, func(label, _ string) bool { return strings.HasSuffix(label, "pillion.dev/hash") })
	// What the API server's own admission adds stands before what Pillion adds in a cluster.
	slices.SortFunc(p.Spec.Volumes, func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Spec.Tolerations, func(a, b corev1.Toleration) int { return strings.Compare(a.Key, b.Key) })
	for i := range p.Spec.Containers {
		slices.SortFunc(p.Spec.Containers[i].VolumeMounts, func(a, b corev1.VolumeMount) int { return strings.Compare(a.MountPath, b.MountPath) })
	}
	hash := p.Labels["pod-template-hash"]
	if revision := p.Labels["controller-revision-hash"]; revision != "" {
		hash = revision[strings.LastIndexByte(revision, '-')+1:]
	}
	uid := string(p.OwnerReferences[0].UID)
	text := pretty(p)
	text = strings.ReplaceAll(text, uid, "UID")
	if hash != "" {
		text = strings.ReplaceAll(text, hash, "HASH")
	}
	return tokenName.ReplaceAllString(timeOfJob.ReplaceAllString(text, "nightly-TIME"), "kube-api-access-x")
}
