package webhook

import (
	"slices"

	"github.com/pillion-dev/pillion/templates"
)

// Entry is an entry of the registration that has pods reviewed. Each has a path of its own. So
// a review tells what the API server knows of the namespace: labels by which the entry selects
// it. A cache that says something else is older than the review, or lacks the namespace's
// newest version.
type Entry struct {
	// Name is the end of the entry's path.
	Name string
	// Closed reports whether the entry's failure policy is Fail.
	Closed bool
	// selects reports whether the entry selects a namespace with these labels.
	selects func(labels map[string]string) bool
	// settles reports whether a cached namespace with these labels will do where it cannot be
	// read live, although the entry does not select it. Nil: none will.
	settles func(labels map[string]string) bool
}

// Selects reports whether the entry selects a namespace.
func (e Entry) Selects(ns templates.Namespace) bool { return e.selects(ns.Labels) }

// SettlesFor reports whether a cached namespace will do that the entry does not select, where it
// cannot be read live. It does for a namespace that the cache has as enforced, at an entry for
// namespaces that are not: without an answer API servers would create the pod as it is.
func (e Entry) SettlesFor(ns templates.Namespace) bool {
	return e.settles != nil && e.settles(ns.Labels)
}

// MutatingEntries returns the entries that have pods injected. all is for a registration in
// which requested is for every namespace that is neither enforced nor disabled. Pods is there all
// the same: the registration may be one without all.
func MutatingEntries(prefix string, all bool) []Entry {
	isEnforced := injectionIn(prefix, templates.InjectionEnforced)
	requested := Entry{Name: "requested", selects: injectionIn(prefix, templates.InjectionEnabled), settles: isEnforced}
	if all {
		requested = openEntry(prefix)
	}
	return []Entry{
		requested,
		{Name: "pods", selects: not(injectionIn(prefix, templates.InjectionEnabled, templates.InjectionEnforced, templates.InjectionDisabled))},
		{Name: "enforced", Closed: true, selects: isEnforced},
	}
}

// VerifyingEntries returns the entries that have final pods verified: those of namespaces
// with the label [templates.RequiredLabel].
func VerifyingEntries(prefix string) []Entry {
	required := templates.RequiredLabel(prefix)
	and := func(selects func(map[string]string) bool) func(map[string]string) bool {
		return func(labels map[string]string) bool { return labels[required] == "true" && selects(labels) }
	}
	return []Entry{
		{Name: "requested", selects: and(openEntry(prefix).selects), settles: and(openEntry(prefix).settles)},
		{Name: "enforced", Closed: true, selects: and(injectionIn(prefix, templates.InjectionEnforced))},
	}
}

// PreviewEntries returns the entries that have workloads and namespaces previewed: where
// namespaces ask for injection, and elsewhere, where the object itself has a key of Pillion's. all
// is as for [MutatingEntries].
func PreviewEntries(prefix string, all bool) []Entry {
	preview := Entry{Name: "preview", selects: injectionIn(prefix, templates.InjectionEnabled, templates.InjectionEnforced)}
	if all {
		preview.selects = not(injectionIn(prefix, templates.InjectionDisabled))
	}
	return []Entry{
		preview,
		{Name: "preview/asked", selects: not(injectionIn(prefix, templates.InjectionEnabled, templates.InjectionEnforced, templates.InjectionDisabled))},
	}
}

// openEntry is the entry for whatever is neither enforced nor disabled.
func openEntry(prefix string) Entry {
	return Entry{Name: "requested", selects: not(injectionIn(prefix, templates.InjectionEnforced, templates.InjectionDisabled)), settles: injectionIn(prefix, templates.InjectionEnforced)}
}

func injectionIn(prefix string, values ...string) func(map[string]string) bool {
	key := templates.InjectionLabel(prefix)
	return func(labels map[string]string) bool {
		value, ok := labels[key]
		return ok && slices.Contains(values, value)
	}
}

func not(selects func(map[string]string) bool) func(map[string]string) bool {
	return func(labels map[string]string) bool { return !selects(labels) }
}
