// Package entries has the table of the webhook registration's entries, and tells through which of them an API
// server calls Pillion for a namespace and a pod. Tests compare the chart with it.
//
// In: the labels of a namespace, and the annotations of a pod. Out: entries, and whether they select
// the namespace. It may import templates, and no other package of this module.
package entries

import (
	"slices"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Registration has the facts by which an API server decides whether to call Pillion.
type Registration struct {
	// All: API servers call Pillion for the pods of all namespaces that do not opt out (webhook.scope of the
	// chart).
	All bool
	// Excluded are the namespaces for which Pillion is never called.
	Excluded []string
}

// Call is the rule by which API servers call Pillion for a pod.
type Call string

// The rules, in the order in which they count.
const (
	// CalledNowhere: the namespace is excluded.
	CalledNowhere Call = "excluded"
	// CalledByLabel: the namespace's label says enabled or enforced.
	CalledByLabel Call = "label"
	// NotCalledByLabel: the namespace's label says disabled.
	NotCalledByLabel Call = "disabled"
	// CalledByPod: the pod has the annotation itself.
	CalledByPod Call = "pod"
	// CalledForAll: Pillion is registered for the pods of all namespaces.
	CalledForAll Call = "all"
	// NotCalled: neither the namespace nor the pod requests injection.
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

// KeepsOut reports whether the namespace is excluded, whatever its pods request.
func (r Registration) KeepsOut(ns templates.Namespace) bool {
	call := r.Call(ns, nil)
	return call == CalledNowhere || call == NotCalledByLabel
}

// Entry is an entry of the registration that reviews pods. Each entry has its own path, so a review's path
// tells which labels of the namespace the API server has seen. A cached namespace with other labels is out of
// date.
type Entry struct {
	// Name is the end of the entry's path.
	Name string
	// Closed is set if the entry's failurePolicy is Fail.
	Closed bool
	// In are the values of the injection label that the entry selects, empty for any and none, and NotIn the
	// values that it excludes.
	In, NotIn []string
	// Required: the label required has to be true, too.
	Required bool
	// Settles is a label value of cached namespaces. If a namespace cannot be read live, a cached one with this
	// value is accepted, although the entry does not select it. Empty: none is accepted.
	Settles string
}

// Selects reports whether the entry selects a namespace.
func (e Entry) Selects(ns templates.Namespace) bool {
	value := ns.Labels[v1alpha1.InjectionLabel]
	return (len(e.In) == 0 || slices.Contains(e.In, value)) && !slices.Contains(e.NotIn, value) && e.verifies(ns)
}

// SettlesFor reports whether a cached namespace is accepted that the entry does not select, because the
// namespace cannot be read live. It reports true for an enforced namespace at an entry for other namespaces:
// without an answer API servers would create the pod without its sidecars.
func (e Entry) SettlesFor(ns templates.Namespace) bool {
	return e.Settles != "" && ns.Labels[v1alpha1.InjectionLabel] == e.Settles && e.verifies(ns)
}

func (e Entry) verifies(ns templates.Namespace) bool {
	return !e.Required || ns.Labels[v1alpha1.RequiredLabel] == "true"
}

// Mutating returns the entries that inject pods. The entry pods is included with All, too, because the API
// server may have a registration without All.
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

// Verifying returns the entries that verify final pods, in namespaces with the label [v1alpha1.RequiredLabel].
func (r Registration) Verifying() []Entry {
	return []Entry{
		{Name: "requested", NotIn: []string{v1alpha1.InjectionEnforced, v1alpha1.InjectionDisabled}, Required: true, Settles: v1alpha1.InjectionEnforced},
		{Name: "enforced", In: []string{v1alpha1.InjectionEnforced}, Required: true, Closed: true},
	}
}

// Preview returns the entries that preview workloads and namespaces: in namespaces that request injection, and
// elsewhere for objects with a key of Pillion's.
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
