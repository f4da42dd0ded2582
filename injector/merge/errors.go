package merge

import (
	"fmt"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// ConflictError reports that a template wants a value where another one stands.
// Nothing is injected. The pod's author resolves it (another name, another
// value, no such template) or the template's author (onConflict).
type ConflictError struct {
	Template string
	// Other is the template that put the standing value there, or "" if it is
	// the pod's own.
	Other string
	// Path is where, as in spec.containers[name=web].env[name=FOO].
	Path string
	// PodValue and TemplateValue are the standing value and the wanted one, as
	// JSON, truncated.
	PodValue, TemplateValue string
	// Hint says, where the values alone do not, why they cannot both be.
	Hint string
}

func (e *ConflictError) Error() string {
	whose := "the pod has"
	if e.Other != "" {
		whose = "template " + e.Other + " has"
	}
	hint := ""
	if e.Hint != "" {
		hint = " (" + e.Hint + ")"
	}
	return fmt.Sprintf("template %s conflicts at %s: %s %s, the template sets %s%s", e.Template, e.Path, whose, e.PodValue, e.TemplateValue, hint)
}

// ResourcesError reports that the containers ask for more than the pod as a whole has,
// because of a template: the API server would refuse the pod.
type ResourcesError struct {
	Template string
	// Path is where the pod as a whole has too little, as in spec.resources.requests.cpu.
	Path string
	// Why says what it has there, what it needs, and what to do.
	Why string
}

func (e *ResourcesError) Error() string { return fmt.Sprintf("template %s %s", e.Template, e.Why) }

// FragmentError reports that a fragment cannot be merged into any pod, or not
// into this one: the template is at fault.
type FragmentError struct {
	Template string
	Path     string // where in the fragment; "" for all of it
	Err      error
}

func (e *FragmentError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("merging template %s: %v", e.Template, e.Err)
	}
	return fmt.Sprintf("merging template %s: at %s: %v", e.Template, e.Path, e.Err)
}

// Unwrap returns what was wrong.
func (e *FragmentError) Unwrap() error { return e.Err }

// PodError reports that the pod holds something other than what the API allows
// at a place that a template wants to change. The API server never sends one.
type PodError struct {
	Template string
	Path     string
	Err      error
}

func (e *PodError) Error() string {
	return fmt.Sprintf("merging template %s: the pod is malformed at %s: %v", e.Template, e.Path, e.Err)
}

// Unwrap returns what was wrong.
func (e *PodError) Unwrap() error { return e.Err }

func (f *Fragment) fault(at *place, format string, args ...any) error {
	return &FragmentError{Template: f.Template, Path: at.String(), Err: fmt.Errorf(format, args...)}
}

func (f *Fragment) podFault(at *place, want string, got any) error {
	return &PodError{Template: f.Template, Path: at.String(), Err: fmt.Errorf("%s is expected, not %s", want, podschema.Show(got))}
}

func (f *Fragment) conflict(at *place, other, stands string, desired any, hint string) error {
	return &ConflictError{Template: f.Template, Other: other, Path: at.String(), PodValue: stands, TemplateValue: shownDesired(desired), Hint: hint}
}

// shownDesired renders what a template wants; nil is that nothing be there.
func shownDesired(v any) string {
	if v == nil {
		return "nothing there"
	}
	return podschema.Show(v)
}
