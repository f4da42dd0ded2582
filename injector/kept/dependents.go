package kept

import (
	"iter"
	"slices"

	"github.com/pillion-dev/pillion/templates"
)

// Dependents are the names of namespaces whose pods depend on Pillion, in order: those whose pods
// come without sidecars while it does not answer, and those whose pods are refused.
type Dependents struct{ Enabled, Enforced []string }

// Newly returns the namespaces that come to depend on Pillion, or come to be enforced, where one
// set of templates takes the place of another. Namespaces whose label a hand set stay as they are.
func (l Labels) Newly(prefix string, before, after *templates.Set, namespaces iter.Seq[Namespace]) Dependents {
	key := templates.InjectionLabel(prefix)
	place := slices.IndexFunc(l.list, func(label Label) bool { return label.Key == key })
	if place < 0 {
		return Dependents{}
	}
	was, is := l.list[place].Wanted(before), l.list[place].Wanted(after)
	var d Dependents
	for ns := range namespaces {
		has, want := ns.Labels[key], is(ns)
		switch {
		case slices.Contains(l.excluded, ns.Name), slices.Contains(ns.ByHand, key), want == was(ns), want == has:
		case want == templates.InjectionEnforced:
			d.Enforced = append(d.Enforced, ns.Name)
		case want == templates.InjectionEnabled && has == "":
			d.Enabled = append(d.Enabled, ns.Name)
		}
	}
	slices.Sort(d.Enabled)
	slices.Sort(d.Enforced)
	return d
}
