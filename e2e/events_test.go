package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitEvent waits until Pillion tells of an object of the kind what is in the note.
func (n *namespace) waitEvent(t *testing.T, kind, reason, note string) {
	t.Helper()
	eventually(t, 2*soon, func() error {
		all, err := client.EventsV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
		expectNoError(t, err)
		for _, e := range all.Items {
			if e.ReportingController == "pillion" && e.Reason == reason && e.Regarding.Kind == kind && e.Regarding.UID != "" && strings.Contains(e.Note, note) {
				return nil
			}
		}
		return fmt.Errorf("no event %s on a %s with %q among %s", reason, kind, note, pretty(all.Items))
	})
}

// Pillion changes its labels on pods. A workload that selects by them would create pods without
// end. Labels alone, copied from a live pod into a pod template, do no harm.
func TestAWorkloadThatSelectsByPillionsLabelsIsRefused(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	key := name + ".pillion.dev/hash"
	var cases map[string]struct {
		Names  string // what its selector names, nothing for a workload that is created
		Object map[string]any
	}
	fromYAML(t, "testdata/selectors.yaml", &cases)
	for what, c := range cases {
		own := strings.NewReplacer("KEY", key)
		err := attempt(t, own.Replace(asYAML(t, c.Object)), "kubectl", "-n", n.name, "create", "-f", "-")
		if c.Names != "" {
			err = refusedWith(err, "spec.selector names "+own.Replace(c.Names))
		}
		wantNoError(t, err, what)
	}
	n.waitPods(t, 1, "pillion.dev/injected=true,"+key+"!=0123456789")
}
