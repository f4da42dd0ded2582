package labels

import (
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Enforcement chooses the namespaces that Pillion enforces once it has proven that it works.
type Enforcement string

// The choices.
const (
	// EnforceRequired: namespaces that a required template selects.
	EnforceRequired Enforcement = "Required"
	// EnforceAsked: those, and namespaces that ask by their annotation.
	EnforceAsked Enforcement = "Asked"
	// EnforceNone: none.
	EnforceNone Enforcement = "None"
)

// Enforcements are the choices.
var Enforcements = []string{string(EnforceRequired), string(EnforceAsked), string(EnforceNone)}

// Includes reports whether a namespace may be enforced in which this asks for sidecars.
func (e Enforcement) Includes(by Asker) bool {
	switch e {
	case EnforceNone:
		return false
	case EnforceAsked:
		return by == Annotation || by == RequiredMatch
	default:
		return by == RequiredMatch
	}
}

// Asker is what asks for sidecars in a namespace, besides single pods.
type Asker int

// The askers. Of several, the last one here counts.
const (
	Nothing Asker = iota
	// OtherMatch is the match of a template that is not required, RequiredMatch that of one
	// that is.
	OtherMatch
	Annotation
	RequiredMatch
)

// AskedBy returns what asks for sidecars in a namespace.
func AskedBy(set *templates.Set, ns templates.Namespace) Asker {
	value, there := ns.Annotations[v1alpha1.InjectKey]
	ask, err := policy.ParseAnnotation(value, there, policy.Namespace)
	switch {
	case set.VerifiedIn(ns):
		return RequiredMatch
	case err != nil, ask.Mode != policy.Out && ask.Mode != policy.Absent: // of a mistake a pod is told
		return Annotation
	case ask.Mode != policy.Out && set.MatchedIn(ns):
		return OtherMatch
	default:
		return Nothing
	}
}
