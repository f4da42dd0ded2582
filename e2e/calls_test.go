package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/charts"
)

// calls counts how often API servers called a mutating webhook of Pillion for each creation
// of a pod in the namespace that succeeded: what an API server is not ready for, the client
// tries again by itself. The audit log has an annotation for every call, also for one that
// changed nothing.
func calls(t *testing.T, n *namespace) []int {
	t.Helper()
	var counts []int
	for _, e := range auditEvents(t, n.name) {
		if e.ResponseStatus.Code != http.StatusCreated {
			continue
		}
		count := 0
		for key, text := range e.Annotations {
			var call struct{ Webhook string }
			if strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") && json.Unmarshal([]byte(text), &call) == nil && strings.HasSuffix(call.Webhook, ".pillion.dev") {
				count++
			}
		}
		counts = append(counts, count)
	}
	return counts
}

// wantCalls creates the pod by dry run, and fails the test unless Pillion was called so often
// for it. The namespace is this pod's own.
func wantCalls(t *testing.T, n *namespace, pod *corev1.Pod, want int) *corev1.Pod {
	t.Helper()
	stored, err := n.preview(t, pod)
	expectNoError(t, err)
	eventually(t, soon, func() error {
		if got := calls(t, n); len(got) != 1 {
			return fmt.Errorf("the audit log has %d creations of pods in %s, want 1", len(got), n.name)
		}
		return nil
	})
	if got := calls(t, n)[0]; got != want {
		t.Errorf("Pillion is called %d times for the pod, want %d:\n%s", got, want, pretty(stored.Spec))
	}
	return stored
}

// asksFor are the annotations of a namespace that asks for templates of the library, with
// all that they have to be told.
func asksFor(t *testing.T, names ...string) map[string]string {
	t.Helper()
	annotations := aboutLibrary(t).Settings
	maps.Copy(annotations, asking(strings.Join(names, ",")))
	return annotations
}

// mountsToken reports whether a container mounts the service account's token.
func mountsToken(c corev1.Container) bool {
	return count(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" }) == 1
}

// A pod is called for once. What the API server's own admission would add to the templates'
// containers afterwards, and call again for, is there.
func TestPillionIsCalledOncePerPodForEveryLibraryTemplate(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{"all of them": charts.Names()}
	for _, name := range charts.Names() {
		cases[name] = []string{name}
	}
	for title, names := range cases {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			stored := wantCalls(t, newNamespace(t, asksFor(t, names...), open()), newPod("web", nil), 1)
			for _, c := range append(stored.Spec.InitContainers, stored.Spec.Containers...) {
				if !mountsToken(c) {
					t.Errorf("container %s does not mount the token, which the API server mounts into every container", c.Name)
				}
			}
		})
	}
}

// What follows from the pod alone is there at once.
func TestPillionIsCalledOnceForFieldsThatTheAPIServerCompletes(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: completedSpec}
	m.apply(t)
	probed, n := newNamespace(t, asking(m.name), open()), newNamespace(t, asking(m.name), open())
	for _, n := range []*namespace{probed, n} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "robots"}}}
		create(t, client.CoreV1().ServiceAccounts(n.name), account)
	}
	injects(t, probed, m.name)
	stored := wantCalls(t, n, newPod("web", nil), 1)
	if c := sidecar(stored, m.name+"-app"); c == nil || c.Ports[0].HostPort != 9000 || c.Resources.Requests.Cpu().String() != "100m" || !mountsToken(*c) {
		t.Errorf("the sidecar is not complete:\n%s", pretty(c))
	}
	if got := len(stored.Spec.Tolerations); got != 3 {
		t.Errorf("the pod has %d tolerations, want the template's one and the API server's two:\n%s", got, pretty(stored.Spec.Tolerations))
	}
}
