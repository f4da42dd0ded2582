package kept

import (
	"slices"

	"github.com/pillion-dev/pillion/templates"
)

// Namespace is a namespace as far as its labels are decided by it.
type Namespace struct {
	// Namespace has an empty name if the API server has yet to generate the name.
	templates.Namespace
	// ResourceVersion is the version that the rest is of. It is empty in a review.
	ResourceVersion string
	// ByHand has the keys of labels that a field manager other than Pillion's owns: somebody
	// set them, and not Pillion.
	ByHand []string
	// Unowned is [Unowned]: an apply has to be forced.
	Unowned bool
	// Keys are the templates' keys that the labels are complete for, as far as selectors name
	// them. Nil: there is no other label.
	Keys *templates.NamespaceReads
	// Forged has the keys of labels that somebody wrote under Pillion's name, as
	// [InPillionsName] finds them. What the keeper looks at has none.
	Forged []string
}

// Label is one label that Pillion keeps on namespaces.
type Label struct {
	Key string
	// Yields reports whether a value that somebody set by hand stays. Other labels are put
	// on whoever set them.
	Yields bool
	// Wanted returns, for the templates in force, which value a namespace is to have; the
	// value "" means that it is to have none. It is called once for a set, and the returned
	// function once for a namespace.
	Wanted func(*templates.Set) func(Namespace) string
	// InWrite returns the value that the label gets in a write of somebody else's, where the
	// write leaves it at has ("" is absent) and the namespace is to have the value wanted,
	// which is not "". Was is the value of Pillion's that the write takes off, "" for none. It
	// returns has where nothing is to change.
	InWrite func(has, was, wanted string) string
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
	j := Judgement{excluded: l.excluded, reads: set.NamespaceReads()}
	for _, label := range l.list {
		j.labels = append(j.labels, judged{label, label.Wanted(set)})
	}
	return j
}

// Judgement says which labels of namespaces have to change, as long as one set of templates
// is in force. It is immutable.
type Judgement struct {
	excluded []string
	labels   []judged
	reads    *templates.NamespaceReads
}

type judged struct {
	Label
	wanted func(Namespace) string
}

// Change is a label that has to change.
type Change struct {
	Key string
	// Value is the value to set. The label is taken off where it is empty. From is the value
	// that it has.
	Value, From string
}

// TakesOff reports whether the label is taken off.
func (c Change) TakesOff() bool { return c.Value == "" }

// Knows reports whether the namespace has all labels that the templates select by. Without them
// it cannot be judged: what a template needs may be there or not.
func (j Judgement) Knows(ns Namespace) bool {
	return ns.Keys == nil || j.reads.SelectsWithin(ns.Keys)
}

// Differences returns the labels of a namespace that are not what they should be.
func (j Judgement) Differences(ns Namespace) []Change {
	return j.changes(ns, func(label judged, has string, there bool) (string, bool) {
		want := label.wanted(ns)
		return want, has != want || there != (want != "")
	})
}

// Applied returns the labels that Pillion owns after the changes, as one server-side apply
// sets them. Force reports whether the apply takes a label from somebody's hand, as one that
// does not yield, or from nobody's.
func (l Labels) Applied(ns Namespace, changes []Change) (labels map[string]string, force bool) {
	labels, force = map[string]string{}, ns.Unowned
	for _, label := range l.list {
		if value, there := ns.Labels[label.Key]; there && !slices.Contains(ns.ByHand, label.Key) {
			labels[label.Key] = value
		}
	}
	for _, c := range changes {
		if c.TakesOff() {
			delete(labels, c.Key)
			continue
		}
		labels[c.Key] = c.Value
		force = force || slices.Contains(ns.ByHand, c.Key)
	}
	return labels, force
}

// InWrite returns the labels that have to change in a write of a namespace, which was another
// one before; nothing, if the write creates it. A label is put on where it is wanted, and never
// taken off: another replica may know of a template that this one has not seen yet. That is left
// to the keeper, which waits.
func (j Judgement) InWrite(ns, before Namespace) []Change {
	return j.changes(ns, func(label judged, has string, _ bool) (string, bool) {
		want := label.wanted(ns)
		if want == "" {
			return "", false
		}
		was := ""
		if has == "" && !slices.Contains(before.ByHand, label.Key) && !slices.Contains(before.Forged, label.Key) {
			was = before.Labels[label.Key]
		}
		value := label.InWrite(has, was, want)
		return value, value != has
	})
}

// changes returns the labels that get another value. f returns the value that a label gets,
// and whether that is a change.
func (j Judgement) changes(ns Namespace, f func(label judged, has string, there bool) (string, bool)) []Change {
	if slices.Contains(j.excluded, ns.Name) {
		return nil
	}
	var changes []Change
	for _, label := range j.labels {
		if label.Yields && slices.Contains(ns.ByHand, label.Key) {
			continue
		}
		has, there := ns.Labels[label.Key]
		if value, changed := f(label, has, there); changed {
			changes = append(changes, Change{Key: label.Key, Value: value, From: has})
		}
	}
	return changes
}
