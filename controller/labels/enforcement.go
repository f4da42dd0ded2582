package labels

import (
	"strings"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
)

// Match chooses the templates that have a namespace enforced by their match alone, so that
// nobody in the namespace asked.
type Match string

// The choices. A namespace that asks by its annotation is enforced with each of them.
const (
	MatchRequired Match = "Required"
	MatchAll      Match = "All"
	MatchNone     Match = "None"
)

// mayEnforce reports whether a namespace may be enforced in which this asks for sidecars.
func (r Rules) mayEnforce(by Asker) bool {
	switch by {
	case RequiredMatch:
		return r.Match != MatchNone
	case OtherMatch:
		return r.Match == MatchAll
	default:
		return true
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
	RequiredMatch
	Annotation
)

// AskedBy returns what asks for sidecars in a namespace.
func AskedBy(set *templates.Set, ns templates.Namespace, prefix string) Asker {
	value, there := ns.Annotations[templates.InjectKey(prefix)]
	ask, err := policy.ParseAsk(value, there, policy.Namespace)
	switch {
	case err != nil, ask.Mode != policy.Out && ask.Mode != policy.Absent: // of a mistake a pod is told
		return Annotation
	case set.VerifiedIn(ns):
		return RequiredMatch
	case ask.Mode != policy.Out && set.MatchedIn(ns):
		return OtherMatch
	default:
		return Nothing
	}
}

// ShortAsk returns a value of a namespace's inject annotation that asks for the same, and has
// no more than a few kilobytes: others' spaces are not kept. A value that asks for nothing that
// can be understood stays one.
func ShortAsk(value string) string {
	ask, err := policy.ParseAsk(value, true, policy.Namespace)
	switch {
	case err != nil:
		return ""
	case ask.Mode == policy.Names:
		return strings.Join(ask.Names, ",")
	default:
		return strings.TrimSpace(value)
	}
}
