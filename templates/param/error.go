package param

import "strings"

// Error is a mistake of a team: an annotation that the template does
// not accept, or one that it needs and that is not there.
type Error struct {
	// Template and Parameter are names. Parameter is empty for an annotation that is no
	// parameter's.
	Template, Parameter string
	// Annotation is the annotation's full key.
	Annotation string
	// Origin says whether the annotation is the pod's or the namespace's. Empty if
	// there is no annotation.
	Origin Origin
	// Value is the value or the item that is not allowed: quoted, control characters escaped,
	// and cut to about 100 characters. If the place of the mistake is known, they are those
	// around it, and >>> stands before it. Empty if the value does not matter.
	Value string
	// Message says what is wrong and what is allowed.
	Message string
}

// Error names the annotation, who set it, what is allowed and the value.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("annotation " + e.Annotation)
	if e.Origin != "" {
		b.WriteString(" on the " + strings.ToLower(string(e.Origin)))
	}
	b.WriteString(": " + e.Message)
	if e.Value != "" {
		b.WriteString("; got " + e.Value)
	}
	return b.String()
}
