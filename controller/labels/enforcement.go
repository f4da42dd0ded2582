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
	// EnforceRequired enforces the namespaces that a required template selects.
	EnforceRequired Enforcement = "Required"
	// EnforceAsked also enforces the namespaces whose annotation requests sidecars.
	EnforceAsked Enforcement = "Asked"
	// EnforceNone enforces no namespace.
	EnforceNone Enforcement = "None"
)

// Enforcements are the choices.
var Enforcements = []string{string(EnforceRequired), string(EnforceAsked), string(EnforceNone)}

// Includes reports whether a namespace with this requester may be enforced.
func (e Enforcement) Includes(by Requester) bool {
	switch e {
	case EnforceNone:
		return false
	case EnforceAsked:
		return by == Annotation || by == RequiredMatch
	default:
		return by == RequiredMatch
	}
}

// Requester is the source of a namespace's request for sidecars. Requests of single pods do not
// count.
type Requester int

// The requesters, in ascending order of precedence.
const (
	Nothing Requester = iota
	// OtherMatch is the match of a template that is not required.
	OtherMatch
	// Annotation is the annotation of the namespace.
	Annotation
	// RequiredMatch is the match of a required template.
	RequiredMatch
)

// FindRequester returns the requester of a namespace.
func FindRequester(set *templates.Set, ns templates.Namespace) Requester {
	value, there := ns.Annotations[v1alpha1.InjectKey]
	ask, err := policy.ParseAnnotation(value, there, policy.Namespace)
	switch {
	case set.VerifiedIn(ns):
		return RequiredMatch
	case err != nil, ask.Mode != policy.Out && ask.Mode != policy.Absent: // pods get the error of a malformed annotation
		return Annotation
	case ask.Mode != policy.Out && set.MatchedIn(ns):
		return OtherMatch
	default:
		return Nothing
	}
}
