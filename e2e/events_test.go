package e2e

import (
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pillionsEvents are the events of Pillion in the namespace.
func (n *namespace) pillionsEvents(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := client.EventsV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
	expectNoError(t, err)
	var all []eventsv1.Event
	for _, e := range list.Items {
		if e.ReportingController == "pillion" {
			all = append(all, e)
		}
	}
	return all
}

// waitEvent waits until Pillion tells of an object of the kind what is in the note.
func (n *namespace) waitEvent(t *testing.T, kind, reason, note string) {
	t.Helper()
	eventually(t, 2*soon, func() error {
		all := n.pillionsEvents(t)
		for _, e := range all {
			if e.Reason == reason && e.Regarding.Kind == kind && e.Regarding.UID != "" && strings.Contains(e.Note, note) {
				return nil
			}
		}
		return fmt.Errorf("no event %s on a %s with %q among %s", reason, kind, note, pretty(all))
	})
}

// Pillion changes its labels on pods. A workload that selects by them would create pods without
// end. Labels alone, copied from a live pod into a pod template, do no harm.
func TestAWorkloadThatSelectsByPillionsLabelsIsRefused(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	key := name + ".pillion.dev/hash"
	for what, c := range map[string]struct{ selector, says string }{
		"a hash":        {fmt.Sprintf(`matchLabels: {app: web, %s: "0123456789"}`, key), "spec.selector names " + key},
		"injected":      {`matchLabels: {app: web, pillion.dev/injected: "true"}`, "spec.selector names pillion.dev/injected"},
		"an expression": {fmt.Sprintf(`matchExpressions: [{key: %s, operator: Exists}]`, key), "spec.selector names " + key},
		"labels only":   {"matchLabels: {app: web}", ""},
	} {
		_, stderr, err := run(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {%s}, template: {
			metadata: {labels: {app: web, pillion.dev/injected: "true", %s: "0123456789"}}, spec: {containers: [{name: app, image: nginx}]}}}}`, c.selector, key), "kubectl", "-n", n.name, "create", "-f", "-")
		if (err != nil) != (c.says != "") || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: %v\n%s", what, err, stderr)
		}
	}
	template := fmt.Sprintf(`template: {metadata: {labels: {app: other, %s: "0123456789"}}, spec: {containers: [{name: app, image: nginx}], restartPolicy: RESTART}}`, key)
	for what, manifest := range map[string]string{
		"a ReplicationController":         fmt.Sprintf(`{apiVersion: v1, kind: ReplicationController, metadata: {name: web}, spec: {selector: {app: other, %s: "0123456789"}, %s}}`, key, strings.Replace(template, "RESTART", "Always", 1)),
		"one that takes its pods' labels": fmt.Sprintf(`{apiVersion: v1, kind: ReplicationController, metadata: {name: web}, spec: {%s}}`, strings.Replace(template, "RESTART", "Always", 1)),
		"a Job with a selector":           fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {manualSelector: true, selector: {matchLabels: {%s: "0123456789"}}, %s}}`, key, strings.Replace(template, "RESTART", "Never", 1)),
	} {
		wantNoError(t, refusedWith(attempt(t, manifest, "kubectl", "-n", n.name, "create", "-f", "-"), "spec.selector names "+key), what)
	}
	n.waitPods(t, 1, "pillion.dev/injected=true,"+key+"!=0123456789")
}
