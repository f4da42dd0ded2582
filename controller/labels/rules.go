package labels

import (
	"slices"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Namespace has the fields of a namespace that decide its labels.
type Namespace struct {
	// Namespace has an empty name if the API server has yet to generate the name.
	templates.Namespace
	// ResourceVersion is the version of the other fields. It is empty in a review.
	ResourceVersion string
	// ByHand has the keys of labels that a field manager other than Pillion's owns.
	ByHand []string
	// Stub means that the labels and annotations are incomplete.
	Stub bool
	// Forged has the keys of labels that another client wrote under Pillion's name, as
	// [FindForgedEntry] finds them. It is empty for a cached namespace.
	Forged []string
}

// Rules decide the labels of namespaces.
type Rules struct {
	// Excluded are the namespaces that get no label.
	Excluded []string
	// Enforcement chooses the namespaces that become enforced. Default: [EnforceRequired].
	Enforcement Enforcement
}

// Change is a label that has to change.
type Change struct {
	Key string
	// Value is the value to set. An empty Value removes the label. From is the present value.
	Value, From string
}

// TakesOff reports whether the change removes the label.
func (c Change) TakesOff() bool { return c.Value == "" }

// Keys returns the keys of the managed labels.
func (r Rules) Keys() []string {
	return []string{v1alpha1.InjectionLabel, v1alpha1.RequiredLabel}
}

// Changes returns the labels of a namespace whose values have to change. A value of the
// injection label that was set by hand stays. Any other value of the required label is
// replaced. proven means that namespaces may become enforced.
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

// injection returns the value that the injection label of a namespace should have: enabled or
// enforced if the namespace's annotation requests sidecars or a template selects it, else "".
func (r Rules) injection(set *templates.Set, proven bool, ns Namespace) string {
	has, by := ns.Labels[v1alpha1.InjectionLabel], FindRequester(set.In(ns.Name), ns.Namespace)
	switch {
	case has == v1alpha1.InjectionDisabled: // only set by hand
		return has
	case by == Nothing:
		return ""
	case r.Enforcement.Includes(by) && (proven || has == v1alpha1.InjectionEnforced):
		return v1alpha1.InjectionEnforced
	default:
		return v1alpha1.InjectionEnabled
	}
}

// ChangesInWrite returns the labels to set in a write of a namespace. before is the namespace
// before an update, and empty if the write creates it. ChangesInWrite removes no label, because
// another replica may have a template that this one lacks. The controller removes labels later.
//
// The injection label becomes enabled only: the right to write a namespace is not the right to
// enforce it. But if a write removes the value enforced that Pillion set, it gets that value again.
// With enabled, pods would be created without their sidecars while Pillion is away.
func (r Rules) ChangesInWrite(set *templates.Set, proven bool, ns, before Namespace) []Change {
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
			if ours && before.Labels[c.Key] == v1alpha1.InjectionEnforced && r.Enforcement.Includes(FindRequester(set.In(ns.Name), ns.Namespace)) {
				c.Value = v1alpha1.InjectionEnforced
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// Applied returns all labels that Pillion owns after the changes, for one server-side apply.
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
