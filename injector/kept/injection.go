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
}

// Injection returns the label that has API servers call Pillion for the pods of a namespace:
// enabled, or enforced, where the namespace's annotation asks, or a template selects it. A
// value that somebody set by hand stays. The function returns what holds now; it is called
// once for each look at the namespaces.
func Injection(prefix string, enforcement func() Enforcement) Label {
	key, annotation := templates.InjectionLabel(prefix), cmp.Or(prefix, templates.DefaultPrefix)+"/inject"
	return Label{
		Key: key, Yields: true,
		Wanted: func(set *templates.Set) func(Namespace) string {
			now := enforcement()
			return func(ns Namespace) string {
				has := ns.Labels[key]
				switch {
				case has == templates.InjectionDisabled: // only hands set it
					return has
				case !asks(set, ns.Namespace, annotation):
					return ""
				case now.Enforce, has == templates.InjectionEnforced && !now.TakeBack:
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

// asks reports whether pods of the namespace may get a sidecar without asking themselves.
func asks(set *templates.Set, ns templates.Namespace, annotation string) bool {
	value, there := ns.Annotations[annotation]
	ask, err := policy.ParseAsk(value, there, policy.Namespace)
	switch {
	case err != nil: // a pod is told so
		return true
	case set.VerifiedIn(ns):
		return true
	case ask.Mode == policy.Out:
		return false
	default:
		return ask.Mode != policy.Absent || set.MatchedIn(ns)
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
