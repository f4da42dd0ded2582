package kept

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/templates"
)

// Label is one label that Pillion keeps on namespaces.
type Label struct {
	Key string
	// Wanted returns, for the templates in force, which value a namespace is to have; the
	// value "" means that it is to have none. It is called once for a set, and the returned
	// function once for a namespace.
	Wanted func(*templates.Set) func(templates.Namespace) string
}

// Required returns the label that has API servers call the webhook that verifies final
// pods: "true" where a required template selects the namespace.
func Required(prefix string) Label {
	return Label{Key: templates.RequiredLabel(prefix), Wanted: func(set *templates.Set) func(templates.Namespace) string {
		selectors := set.RequiredNamespaces()
		return func(ns templates.Namespace) string {
			if slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(ns.Labels)) }) {
				return "true"
			}
			return ""
		}
	}}
}

// Labels are the labels that Pillion keeps. Make them with [New].
type Labels struct {
	excluded []string
	list     []Label
}

// New returns labels that are kept on all namespaces but the excluded ones.
func New(excluded []string, list ...Label) Labels { return Labels{excluded, list} }

// Keys returns the keys of the labels.
func (l Labels) Keys() []string {
	var keys []string
	for _, label := range l.list {
		keys = append(keys, label.Key)
	}
	return keys
}

// By returns the judgement by a set of templates.
func (l Labels) By(set *templates.Set) Judgement {
	j := Judgement{excluded: l.excluded}
	for _, label := range l.list {
		j.labels = append(j.labels, judged{label.Key, label.Wanted(set)})
	}
	return j
}

// Judgement says which labels of namespaces have to change, as long as one set of templates
// is in force. It is immutable.
type Judgement struct {
	excluded []string
	labels   []judged
}

type judged struct {
	key    string
	wanted func(templates.Namespace) string
}

// Change is a label that has to change.
type Change struct {
	Key string
	// Value is the value to set. The label is taken off where it is empty.
	Value string
}

// TakesOff reports whether the label is taken off.
func (c Change) TakesOff() bool { return c.Value == "" }

// Differences returns the labels of a namespace that are not what they should be.
func (j Judgement) Differences(ns templates.Namespace) []Change {
	return j.changes(ns, func(judged) bool { return true })
}

// InWrite returns the labels that have to change in a write of a namespace; old is nil where
// the write creates it. A label is put on wherever it is wanted. It is taken off only where
// the write itself ends the need: another replica may know of a template that this one has
// not seen yet, so taking a label off is otherwise left to the keeper, which waits.
func (j Judgement) InWrite(old *templates.Namespace, ns templates.Namespace) []Change {
	return j.changes(ns, func(label judged) bool { return old == nil || label.wanted(*old) != "" })
}

// changes returns the labels that differ from what is wanted. takeOff says whether a label
// that is not wanted is among them.
func (j Judgement) changes(ns templates.Namespace, takeOff func(judged) bool) []Change {
	if slices.Contains(j.excluded, ns.Name) {
		return nil
	}
	var changes []Change
	for _, label := range j.labels {
		has, there := ns.Labels[label.key]
		want := label.wanted(ns)
		if want != "" && has != want || want == "" && there && takeOff(label) {
			changes = append(changes, Change{label.key, want})
		}
	}
	return changes
}
