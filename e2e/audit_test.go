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
	if err != nil {
		t.Fatal(err)
	}
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

// statusWrites counts the writes to a template's status that succeeded, and those that
// came too late.
func statusWrites(t *testing.T, name string) (done, late int) {
	t.Helper()
	log, err := os.ReadFile(shared.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		var e struct {
			Verb           string
			ObjectRef      struct{ Resource, Name, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.ObjectRef.Resource != "sidecartemplates" || e.ObjectRef.Name != name || e.ObjectRef.Subresource != "status" {
			continue
		}
		if e.ResponseStatus.Code == 200 {
			done++
		} else {
			late++
		}
	}
	return done, late
}
