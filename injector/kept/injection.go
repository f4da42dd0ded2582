package kept

import (
	"cmp"
	"strings"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
)

// Enforcement says whether Pillion refuses pods rather than let them go without it.
type Enforcement struct {
	// Enforce: namespaces that ask get the value enforced, since Pillion has proven itself.
	Enforce bool
	// TakeBack: those that Pillion enforced before go back to enabled.
	TakeBack bool
	// Match says which namespaces may be enforced that only the match of a template selects.
	// Default: [MatchRequired].
	Match Match
}

// Match chooses the templates that have a namespace enforced by their match alone, so that
// nobody in the namespace asked.
type Match string

// The choices. A namespace that asks by its annotation is enforced with each of them.
const (
	MatchRequired Match = "Required"
	MatchAll      Match = "All"
	MatchNone     Match = "None"
)

// Matches are all choices.
var Matches = []Match{MatchRequired, MatchAll, MatchNone}

// Injection returns the label that has API servers call Pillion for the pods of a namespace:
// enabled, or enforced, where the namespace's annotation asks, or a template selects it. A
// value that somebody set by hand stays. The function returns what holds now; it is called
// once for each look at the namespaces.
func Injection(prefix string, enforcement func() Enforcement) Label {
	key := templates.InjectionLabel(prefix)
	return Label{
		Key: key, Yields: true,
		Wanted: func(set *templates.Set) func(Namespace) string {
			now := enforcement()
			return func(ns Namespace) string {
				has, by := ns.Labels[key], AskedBy(set, ns.Namespace, prefix)
				switch {
				case has == templates.InjectionDisabled: // only hands set it
					return has
				case by == Nothing:
					return ""
				case now.mayEnforce(by) && (now.Enforce || has == templates.InjectionEnforced && !now.TakeBack):
					return templates.InjectionEnforced
				default:
					return templates.InjectionEnabled
				}
			}
		},
		// A write of somebody else's puts on enabled, and no more: who may write a namespace may
		// not therefore enforce anything. But where it takes off what Pillion enforced, that is put
		// back: with enabled, pods would be created without their sidecars while Pillion is away.
		InWrite: func(has, was, _ string) string {
			if has == "" && was == templates.InjectionEnforced && !enforcement().TakeBack {
				return was
			}
			return cmp.Or(has, templates.InjectionEnabled)
		},
	}
}

// mayEnforce reports whether a namespace may be enforced in which this asks for sidecars.
func (e Enforcement) mayEnforce(by Asker) bool {
	switch by {
	case RequiredMatch:
		return e.Match != MatchNone
	case OtherMatch:
		return e.Match == MatchAll
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
