// Package entries has the table of the registration's entries: which of them an API server calls
// Pillion through, for a namespace and a pod. The chart's templates are held to it by tests.
//
// In: the labels of a namespace, and the annotations of a pod. Out: entries, and whether they select
// the namespace. It may import templates, and no other package of this module.
package entries

import (
	"slices"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Registration is what an API server asks about a pod before it calls Pillion.
type Registration struct {
	// All: Pillion is called for the pods of all namespaces that do not opt out
	// (webhook.scope of the chart).
	All bool
	// Excluded are the namespaces that Pillion keeps out of.
	Excluded []string
}

// Call is the rule by which API servers call Pillion for a pod, or do not.
type Call string

// The rules, in the order in which they count.
const (
	// CalledNowhere: Pillion keeps out of the namespace.
	CalledNowhere Call = "excluded"
	// CalledByLabel: the namespace's label says enabled or enforced.
	CalledByLabel Call = "label"
	// NotCalledByLabel: the namespace's label says disabled.
	NotCalledByLabel Call = "disabled"
	// CalledByPod: the pod has the annotation itself.
	CalledByPod Call = "pod"
	// CalledForAll: Pillion is registered for the pods of all namespaces.
	CalledForAll Call = "all"
	// NotCalled: nothing asks.
	NotCalled Call = "none"
)

// Called reports whether API servers call Pillion.
func (c Call) Called() bool { return c == CalledByLabel || c == CalledByPod || c == CalledForAll }

// Call returns the rule for pods of the namespace with these annotations. It is the table of the
// chart's entries for pods (webhook.yaml).
func (r Registration) Call(ns templates.Namespace, annotations map[string]any) Call {
	_, asks := annotations[v1alpha1.InjectKey]
	label := ns.Labels[v1alpha1.InjectionLabel]
	switch {
	case slices.Contains(r.Excluded, ns.Name):
		return CalledNowhere
	case label == v1alpha1.InjectionEnabled || label == v1alpha1.InjectionEnforced:
		return CalledByLabel
	case label == v1alpha1.InjectionDisabled:
		return NotCalledByLabel
	case asks:
		return CalledByPod
	case r.All:
		return CalledForAll
	}
	return NotCalled
}

// Calls reports whether API servers call Pillion for pods of the namespace with these
// annotations.
func (r Registration) Calls(ns templates.Namespace, annotations map[string]any) bool {
	return r.Call(ns, annotations).Called()
}

// KeepsOut reports whether Pillion has nothing to do with a namespace, whatever a pod asks.
func (r Registration) KeepsOut(ns templates.Namespace) bool {
	call := r.Call(ns, nil)
	return call == CalledNowhere || call == NotCalledByLabel
}

// Entry is an entry of the registration that has pods reviewed. Each has a path of its own. So
// a review tells what the API server knows of the namespace: labels by which the entry selects
// it. A cache that says something else is older than the review, or lacks the namespace's
// newest version.
type Entry struct {
	// Name is the end of the entry's path.
	Name string
	// Closed reports whether the entry's failure policy is Fail.
	Closed bool
	// In are the values of the label injection that the entry selects, empty for any and none, and
	// NotIn those that it does not.
	In, NotIn []string
	// Required: the label required has to be true, too.
	Required bool
	// Settles is the value with which a cached namespace will do, although the entry does not select
	// it, where it cannot be read live. Empty: none will.
	Settles string
}

// Selects reports whether the entry selects a namespace.
func (e Entry) Selects(ns templates.Namespace) bool {
	value := ns.Labels[v1alpha1.InjectionLabel]
	return (len(e.In) == 0 || slices.Contains(e.In, value)) && !slices.Contains(e.NotIn, value) && e.verifies(ns)
}

// SettlesFor reports whether a cached namespace will do that the entry does not select, where it
// cannot be read live. It does for a namespace that the cache has as enforced, at an entry for
// namespaces that are not: without an answer API servers would create the pod as it is.
func (e Entry) SettlesFor(ns templates.Namespace) bool {
	return e.Settles != "" && ns.Labels[v1alpha1.InjectionLabel] == e.Settles && e.verifies(ns)
}

func (e Entry) verifies(ns templates.Namespace) bool {
	return !e.Required || ns.Labels[v1alpha1.RequiredLabel] == "true"
}

// Mutating returns the entries that have pods injected. Pods is there with All, too: the API server
// may have a registration without it.
func (r Registration) Mutating() []Entry {
	requested := Entry{Name: "requested", In: []string{v1alpha1.InjectionEnabled}, Settles: v1alpha1.InjectionEnforced}
	if r.All {
		requested.In, requested.NotIn = nil, []string{v1alpha1.InjectionEnforced, v1alpha1.InjectionDisabled}
	}
	return []Entry{
		requested,
		{Name: "pods", NotIn: []string{v1alpha1.InjectionEnabled, v1alpha1.InjectionEnforced, v1alpha1.InjectionDisabled}},
		{Name: "enforced", In: []string{v1alpha1.InjectionEnforced}, Closed: true},
	}
}

// Verifying returns the entries that have final pods verified: those of namespaces with the label
// [v1alpha1.RequiredLabel].
func (r Registration) Verifying() []Entry {
	return []Entry{
		{Name: "requested", NotIn: []string{v1alpha1.InjectionEnforced, v1alpha1.InjectionDisabled}, Required: true, Settles: v1alpha1.InjectionEnforced},
		{Name: "enforced", In: []string{v1alpha1.InjectionEnforced}, Required: true, Closed: true},
	}
}

// Preview returns the entries that have workloads and namespaces previewed: where namespaces ask for
// injection, and elsewhere, where the object itself has a key of Pillion's.
func (r Registration) Preview() []Entry {
	preview := Entry{Name: "preview", In: []string{v1alpha1.InjectionEnabled, v1alpha1.InjectionEnforced}}
	if r.All {
		preview.In, preview.NotIn = nil, []string{v1alpha1.InjectionDisabled}
	}
	return []Entry{
		preview,
		{Name: "preview/asked", NotIn: []string{v1alpha1.InjectionEnabled, v1alpha1.InjectionEnforced, v1alpha1.InjectionDisabled}},
	}
}
