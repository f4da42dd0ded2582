package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/workload"
)

// The commands that read a workload decide about the pod that its controller creates. They know this
// pod as the real controllers make it, but for random values.
func TestAPodIsCreatedAsTheWorkloadsControllerDoes(t *testing.T) {
	t.Parallel()
	n, other, node := newNamespace(t, nil, nil), newNamespace(t, nil, nil), unique("node")
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	temporary(t, client.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"e2e": node}}, Status: ready})
	workloads := strings.ReplaceAll(createdWorkloads, "NODE", node)
	must(t, workloads, "kubectl", "-n", n.name, "apply", "-f", "-")
	// A run is due at once.
	must(t, fmt.Sprintf(`{"status": {"lastScheduleTime": %q}}`, time.Now().Add(-5*time.Minute).UTC().Format(time.RFC3339)),
		"kubectl", "-n", n.name, "patch", "cronjob", "nightly", "--subresource=status", "--type=merge", "--patch-file=/dev/stdin")
	documents, err := workload.Parse([]byte(workloads))
	expectNoError(t, err)
	for _, d := range documents {
		var created corev1.Pod
		_, _, err := workload.Change(d.Object, func(p workload.Pod) (map[string]any, error) {
			text, err := json.Marshal(p.Created(other.name))
			expectNoError(t, err)
			return p.Object, json.Unmarshal(text, &created)
		})
		expectNoError(t, err)
		// API servers add to the pod all that they add to every pod.
		expected, err := other.preview(t, &created)
		expectNoError(t, err)
		prefix := d.Object["metadata"].(map[string]any)["name"].(string) + "-"
		var real corev1.Pod
		eventually(t, soon, func() error {
			pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
			i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, prefix) })
			if err != nil || i < 0 {
				return fmt.Errorf("there is no pod of %s (%w)", prefix, err)
			}
			real = pods.Items[i]
			return nil
		})
		names := strings.NewReplacer(n.name, "NAMESPACE", other.name, "NAMESPACE", node, "NODE", `"`+workload.AssumedNode+`"`, `"NODE"`)
		if got, want := names.Replace(comparable(&real)), names.Replace(comparable(expected)); got != want {
			t.Errorf("%s: the pod is\n%s\nand was expected as\n%s", prefix, got, want)
		}
	}
}

var (
	timeOfJob = regexp.MustCompile(`nightly-[0-9]{8}`)
	tokenName = regexp.MustCompile(`kube-api-access-[a-z0-9]+`)
)

// comparable is a pod as text, without random values: UIDs, hashes and the time of a run.
func comparable(pod *corev1.Pod) string {
	p := pod.DeepCopy()
	if p.Labels["apps.kubernetes.io/pod-index"] == "" {
		p.Name = ""
	}
	p.UID, p.ResourceVersion, p.Generation, p.CreationTimestamp, p.ManagedFields, p.Status = "", "", 0, metav1.Time{}, nil, corev1.PodStatus{}
	slices.SortFunc(p.Spec.Tolerations, func(a, b corev1.Toleration) int { return strings.Compare(a.Key, b.Key) })
	text := strings.ReplaceAll(pretty(p), string(p.OwnerReferences[0].UID), "UID")
	for _, label := range slices.Sorted(maps.Keys(p.Labels)) {
		if strings.HasSuffix(label, "-hash") {
			revision := p.Labels[label]
			text = strings.ReplaceAll(text, revision[strings.LastIndexByte(revision, '-')+1:], "HASH")
		}
	}
	return tokenName.ReplaceAllString(timeOfJob.ReplaceAllString(text, "nightly-TIME"), "kube-api-access-x")
}
