package param

// Error is a team's mistake: an annotation that the template does not accept, or a missing annotation that it
// requires.
type Error struct {
	// Template and Parameter are names. Parameter is empty for an annotation that belongs to no parameter.
	Template, Parameter string
	// Annotation is the annotation's full key. Other is the key of the parameter's other annotation, "" without
	// one.
	Annotation, Other string
	// Origin is the object with the annotation. Empty if there is no annotation.
	Origin Origin
	// Value is the value or the item that is not allowed: quoted, with control characters escaped, and cut to
	// about 100 characters. If the place of the mistake is known, these are the characters around it, with >>>
	// in front of it. Empty if the value does not matter.
	Value string
	// Message describes the mistake and the allowed values.
	Message string
}
