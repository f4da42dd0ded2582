package labels

import (
	"slices"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Namespace is a namespace as far as its labels are decided by it.
type Namespace struct {
	// Namespace has an empty name if the API server has yet to generate the name.
	templates.Namespace
	// ResourceVersion is the version of the other fields. It is empty in a review.
	ResourceVersion string
	// ByHand has the keys of labels that a field manager other than Pillion's owns.
	ByHand []string
	// Stub: the labels and annotations are not all that the namespace has.
	Stub bool
	// Forged has the keys of labels that somebody wrote under Pillion's name, as
	// [InPillionsName] finds them. A namespace of the cache has none.
	Forged []string
}

// Rules say which labels namespaces are to have.
type Rules struct {
	// Excluded are the namespaces that get no label.
	Excluded []string
	// Enforcement says which namespaces become enforced. Default: [EnforceRequired].
	Enforcement Enforcement
}

// Change is a label that has to change.
type Change struct {
	Key string
	// Value is the value to set. The label is taken off where it is empty. From is the value
	// that the label has.
	Value, From string
}

// TakesOff reports whether the label is taken off.
func (c Change) TakesOff() bool { return c.Value == "" }

// Keys returns the keys of the managed labels.
func (r Rules) Keys() []string {
	return []string{v1alpha1.InjectionLabel, v1alpha1.RequiredLabel}
}

// Changes returns the labels of a namespace that are not what they should be. A value of the
// injection label that somebody set by hand stays. Nobody can set the required label to
// anything else. Proven: Pillion has proven that it works, so namespaces may become enforced.
func (r Rules) Changes(set *templates.Set, proven bool, ns Namespace) []Change {
	if slices.Contains(r.Excluded, ns.Name) {
		return nil
	}
	set = set.In(ns.Name)
	var changes []Change
	add := func(key, want string) {
		if has, there := ns.Labels[key]; has != want || there != (want != "") {
			changes = append(changes, Change{Key: key, Value: want, From: has})
		}
	}
	if key := v1alpha1.InjectionLabel; !slices.Contains(ns.ByHand, key) {
		add(key, r.injection(set, proven, ns))
	}
	required := ""
	if set.VerifiedIn(ns.Namespace) {
		required = "true"
	}
	add(v1alpha1.RequiredLabel, required)
	return changes
}

// injection returns the value that the injection label of a namespace should have, "" for none:
// enabled, or enforced, where the namespace's annotation asks, or a template selects it.
func (r Rules) injection(set *templates.Set, proven bool, ns Namespace) string {
	has, by := ns.Labels[v1alpha1.InjectionLabel], AskedBy(set.In(ns.Name), ns.Namespace)
	switch {
	case has == v1alpha1.InjectionDisabled: // only hands set it
		return has
	case by == Nothing:
		return ""
	case r.Enforcement.Includes(by) && (proven || has == v1alpha1.InjectionEnforced):
		return v1alpha1.InjectionEnforced
	default:
		return v1alpha1.InjectionEnabled
	}
}

// InWrite returns the labels that have to change in a write of a namespace. Before is the
// namespace before an update, and empty where the write creates it. A label is put on where it is
// wanted, and never taken off: another replica may have a template that this one lacks. The
// controller takes labels off, after a while.
//
// The injection label becomes enabled, and no more: a right to write a namespace is no right to
// enforce. But a write that takes off what Pillion enforced gets it back. With enabled, pods would
// be created without their sidecars while Pillion is away.
func (r Rules) InWrite(set *templates.Set, proven bool, ns, before Namespace) []Change {
	var changes []Change
	for _, c := range r.Changes(set, proven, ns) {
		if c.TakesOff() {
			continue
		}
		if c.Key == v1alpha1.InjectionLabel {
			if c.From != "" {
				continue
			}
			ours := !slices.Contains(before.ByHand, c.Key) && !slices.Contains(before.Forged, c.Key)
			c.Value = v1alpha1.InjectionEnabled
			if ours && before.Labels[c.Key] == v1alpha1.InjectionEnforced && r.Enforcement.Includes(AskedBy(set.In(ns.Name), ns.Namespace)) {
				c.Value = v1alpha1.InjectionEnforced
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// Applied returns the labels that Pillion owns after the changes that put labels on, as one server-side apply
// sets them.
func (r Rules) Applied(ns Namespace, changes []Change) map[string]string {
	labels := map[string]string{}
	for _, key := range r.Keys() {
		if value, there := ns.Labels[key]; there && !slices.Contains(ns.ByHand, key) {
			labels[key] = value
		}
	}
	for _, c := range changes {
		labels[c.Key] = c.Value
	}
	return labels
}
