package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A mistake is one that a team makes in a manifest. Its fields are lines of YAML, as the page
// shows them.
type mistake struct {
	Title     string
	Namespace map[string]string // annotations; nil: it asks for fluent-bit
	Labels    map[string]string // of the namespace
	Object    string            // annotations of the Deployment
	Pod       string            // annotations of its pod template
	Spec      string            // fields of the pod's spec
	Refused   bool              // no pod comes of it
	Told      []string          // the reasons of events that the team has to see
}

// text is the manifest, in web.yaml.
func (m mistake) text() string {
	part := func(lines, under, indent string) string {
		if lines == "" {
			return ""
		}
		text := under
		for line := range strings.Lines(lines) {
			text += indent + strings.TrimRight(line, "\n") + "\n"
		}
		return text
	}
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n" + part(m.Object, "  annotations:\n", "    ") +
		"spec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata:\n      labels: {app: web}\n" +
		part(m.Pod, "      annotations:\n", "        ") + "    spec:\n" + part(m.Spec, "", "      ") +
		"      containers:\n      - name: web\n        image: nginx:1.29\n"
}

// lookAt is the command by which a team looks, after kubectl apply.
const lookAt = `kubectl describe deployment web | sed -n '/^Events/,$p'`

// A team makes a mistake, looks with kubectl alone, and sees what the page shows.
func TestAMistakeIsToldByKubectl(t *testing.T) {
	t.Parallel()
	m := mistake{Title: "wrong value", Pod: "fluent-bit.pillion.dev/log-level: loud", Refused: true, Told: []string{"BadParameter"}}
	var at *team
	var applied string
	// On a busy machine a preview may take longer than API servers wait for one.
	for range 3 {
		at = newTeam(t, asking("fluent-bit"), nil)
		at.write(t, "web.yaml", m.text())
		if applied = at.seen(t, "kubectl apply -f web.yaml"); strings.Contains(applied, "\nWarning: ") {
			break
		}
	}
	at.settle(t, m)
	recorded(t, "troubleshoot/README.md", m.Title, func(string) string { return applied + at.seen(t, lookAt) })
}

// settle waits until the workload has its pod, or events say why not.
func (at *team) settle(t *testing.T, m mistake) {
	t.Helper()
	eventually(t, soon, func() error {
		pods, err := client.CoreV1().Pods(at.name).List(t.Context(), metav1.ListOptions{})
		expectNoError(t, err)
		events, err := client.CoreV1().Events(at.name).List(t.Context(), metav1.ListOptions{})
		expectNoError(t, err)
		seen := map[string]bool{}
		for _, e := range events.Items {
			seen[e.Reason] = true
		}
		if m.Refused != seen["FailedCreate"] || m.Refused == (len(pods.Items) > 0) {
			return fmt.Errorf("refused: want %t, but there are %d pods and events %v", m.Refused, len(pods.Items), seen)
		}
		for _, code := range m.Told {
			if !seen[code] {
				return fmt.Errorf("no event %s, but %v", code, seen)
			}
		}
		return nil
	})
}
