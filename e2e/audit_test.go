package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// auditEvent is what these tests read of an event of audit.k8s.io.
type auditEvent struct {
	ObjectRef struct {
		Namespace, Resource, Subresource string
	} `json:"objectRef"`
	ResponseStatus struct{ Code int } `json:"responseStatus"`
	Annotations    map[string]string  `json:"annotations"`
}

// auditEvents are the creations of pods in namespace so far.
func auditEvents(t *testing.T, namespace string) []auditEvent {
	t.Helper()
	log, err := os.ReadFile(shared.AuditLog())
	expectNoError(t, err)
	var events []auditEvent
	for line := range strings.Lines(string(log)) {
		var e auditEvent
		// The last line may be half written.
		if json.Unmarshal([]byte(line), &e) == nil && e.ObjectRef.Namespace == namespace && e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "" {
			events = append(events, e)
		}
	}
	return events
}
