package manifests

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/workload"
)

// Result is one document before and after a change of its pods.
type Result struct {
	Before workload.Document
	After  map[string]any
	// Pods is the number of pods in the document. Patches are the changes of all of them.
	Pods      int
	Patches   []patch.Operation
	IsChanged bool
}

// Report is the result of a change of all documents.
type Report struct {
	Results []Result
	// Notes are in the order of the pods.
	Notes []Note
	// IsRefused: a pod was refused or cannot be read, so that no result counts.
	IsRefused bool
}

// Severity is the beginning of a note.
type Severity string

// The severities of notes.
const (
	Refusal Severity = "refused"
	Failure Severity = "failed"
	Warning Severity = "warning"
	Remark  Severity = "note"
)

// Note is a sentence about a pod, or about all of them.
type Note struct {
	Severity Severity
	// Object has the pod. It is nil for a note about all pods.
	Object map[string]any
	// Owner names the pod or its workload.
	Owner, Text string
}

// String implements fmt.Stringer.
func (n Note) String() string {
	if n.Object == nil {
		return fmt.Sprintf("%s: %s", n.Severity, n.Text)
	}
	return fmt.Sprintf("%s: %s: %s", n.Severity, n.Owner, n.Text)
}

func podNote(s Severity, p workload.Pod, text string) Note {
	return Note{Severity: s, Object: p.Holder(), Owner: p.Owner, Text: text}
}
