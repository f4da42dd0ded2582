package param

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	noExample = "the required parameter %s has %w"

	// The mistakes in a declaration. The field is the subject of each.
	wrongName           = "must be lowerCamelCase, and none of %s; got %s"
	longAnnotation      = "gives the annotation the name %s of %d characters; at most %d are allowed"
	sameAnnotation      = "gives the annotation %s%s, which the parameter %s already has; use another name"
	noType              = "is missing; it must be one of %s"
	wrongType           = "must be one of %s; got %s"
	noItems             = "is missing; a %s says what its values are, as in items: string"
	strayItems          = "is only for the types list and map"
	strayConstraints    = "the constraints of a %s belong to its items, as in items: {type: %s, …}"
	wrongItems          = "must be a scalar type, one of %s; got %s"
	wrongLevel          = "must be Namespace or Pod; got %s"
	nobodySets          = "lets nobody set this required parameter, and it has no default; add a level, or a default"
	noAnnotation        = "must be the key of an annotation, such as old.example.com/role; got %s"
	ownAnnotation       = "is reserved for Pillion; name an annotation of another injector or of your own; got %s"
	annotationOfMap     = "must end in %s, which stands for the map's key, as in old.example.com/attribute.KEY; got %s"
	takenAnnotation     = "names the annotation %s, which the parameter %s already has; use another one"
	otherTypes          = "is not for the type %s"
	negative            = "must not be negative; got %d"
	greaterThanMaximum  = "must not be greater than the maximum"
	wrongListValue      = "must be a list, or comma separated text"
	wrongMapValue       = "must be an object"
	wrongKind           = "must be %s; got %s"
	numberToYAML        = "is the number %s to YAML; quote it"
	booleanToYAML       = "is the boolean %t to YAML; quote it, or write %s"
	tooManyPatterns     = "is one regular expression too many; at most %d are allowed in a template of a namespace"
	longPattern         = "is a regular expression of %d bytes; at most %d are allowed in a template of a namespace"
	expensivePattern    = "is a regular expression of %d instructions; at most %d are allowed in a template of a namespace: repeat less, as in {0,63}"
	noRegularExpression = "is not a regular expression: %w"

	// The mistakes in an annotation. The annotation is the subject of each, or "it".
	isMissing      = "it is missing, and the template %s requires it: set it on %s; it must be %s"
	nearAnnotation = "; the %s has %s%s, which is no parameter: did you mean %s?"
	tooManyBytes   = "has %d bytes; at most %d are allowed in a template of a namespace, for all values with a pattern together"
	isMap          = "is a map; set %s instead"
	otherLevel     = "may not be set there; it may be set by %s"
	noParameter    = "the template %s has no such parameter%s (all of them: pillion params %s)"
	noneEither     = "; no parameters either: "
)

// Error names the annotation, its origin, its value and the allowed values.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("annotation " + e.Annotation)
	if e.Other != "" {
		b.WriteString(" (or " + e.Other + ")")
	}
	if e.Origin != "" {
		b.WriteString(" on the " + strings.ToLower(string(e.Origin)))
	}
	b.WriteString(": " + e.Message)
	if e.Value != "" {
		b.WriteString("; got " + e.Value)
	}
	return b.String()
}

// ErrNoExample is wrapped by the error of [Set.ResolveExample] for a required parameter without a value.
var ErrNoExample = errors.New("no example, and Pillion cannot make one up")

// Annotations names the annotations that set the parameter.
func (p Parameter) Annotations() string {
	if p.SecondAnnotation == "" {
		return p.Annotation
	}
	return p.Annotation + " or " + p.SecondAnnotation
}

// allowed describes the allowed values of an annotation in words.
func (p *parameter) allowed() string {
	switch p.decl.Type {
	case v1alpha1.List:
		return "a comma separated list, each item " + p.one.allowed
	case v1alpha1.Map:
		return "one annotation for each key, its value " + p.one.allowed
	}
	return p.one.allowed
}

// levels describes the levels that may set the parameter.
func (p *parameter) levels() string {
	switch ns, pod := p.setBy(FromNamespace), p.setBy(FromPod); {
	case ns && pod:
		return "the namespace or the pod"
	case ns:
		return "the namespace"
	case pod:
		return "the pod"
	}
	return "nobody"
}

// describe sets the description of the allowed values.
func (s *scalar) describe(c v1alpha1.Constraints) {
	if len(s.enum) > 0 {
		words := make([]string, len(s.enum))
		for i, v := range s.enum {
			words[i] = textOf(v)
		}
		s.allowed = "one of " + strings.Join(words, ", ")
	}
	if s.pattern != nil {
		s.allowed += " that matches " + show.Plain(c.Pattern) + " as a whole"
	}
	if s.min != nil {
		s.allowed += ", at least " + textOf(s.min)
	}
	if s.max != nil {
		s.allowed += ", at most " + textOf(s.max)
	}
	if s.maxLength >= 0 {
		s.allowed += fmt.Sprintf(", at most %d characters long", s.maxLength)
	}
}
