package templates

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// index finds templates by the labels that they select, without asking each. Each is filed
// under one label that its selectors need. A lookup asks those that are filed under a label
// of the namespace or the pod, and those that need no label.
type index struct {
	// selected has what each filed template selects, by its place in the set.
	selected map[int]selected
	// drawers has the places, in the set's order.
	drawers map[drawer][]int
	// always has the places of templates that need no label.
	always []int
}

// selected is what a template selects.
type selected struct{ namespace, pod labels.Selector }

func (s selected) matches(namespace, pod map[string]string) bool {
	return s.namespace.Matches(labels.Set(namespace)) && s.pod.Matches(labels.Set(pod))
}

// drawer is a label: its key and one value, or its key with any value.
type drawer struct {
	ofPod, anyValue bool
	key, value      string
}

// newIndex files each template in the drawers of the requirement that the fewest others
// have: where all templates select the same namespaces, they are told apart by their pods.
func newIndex(all map[int]selected) index {
	x := index{selected: all, drawers: map[drawer][]int{}}
	users := map[drawer]int{}
	for _, s := range all {
		for _, drawers := range s.needs() {
			for _, d := range drawers {
				users[d]++
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(all)) {
		var best []drawer
		fewest := 0
		for _, drawers := range all[place].needs() {
			most := 0
			for _, d := range drawers {
				most = max(most, users[d])
			}
			if best == nil || most < fewest {
				best, fewest = drawers, most
			}
		}
		if best == nil {
			x.always = append(x.always, place)
		}
		for _, d := range best {
			x.drawers[d] = append(x.drawers[d], place)
		}
	}
	return x
}

// needs returns for each label that must be there the drawers that it can be in. There are
// no two of them for one label of an object, so a lookup finds a template once.
func (s selected) needs() [][]drawer {
	var all [][]drawer
	for i, selector := range []labels.Selector{s.namespace, s.pod} {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			d := drawer{ofPod: i == 1, key: r.Key()}
			switch r.Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				var drawers []drawer
				for value := range r.Values() {
					d.value = value
					drawers = append(drawers, d)
				}
				all = append(all, drawers)
			case selection.Exists, selection.GreaterThan, selection.LessThan:
				d.anyValue = true
				all = append(all, []drawer{d})
			}
		}
	}
	return all
}

// find appends the places of the templates that match, in no order.
func (x *index) find(found []int, namespace, pod map[string]string) []int {
	x.each(namespace, pod, func(place int) bool {
		found = append(found, place)
		return true
	})
	return found
}

// each calls f for the places of the templates that match, once each and in no order, until
// it returns false.
func (x *index) each(namespace, pod map[string]string, f func(place int) bool) {
	ask := func(places []int) bool {
		for _, place := range places {
			if x.selected[place].matches(namespace, pod) && !f(place) {
				return false
			}
		}
		return true
	}
	in := func(object map[string]string, ofPod bool) bool {
		for key, value := range object {
			if !ask(x.drawers[drawer{ofPod: ofPod, key: key, value: value}]) || !ask(x.drawers[drawer{ofPod: ofPod, key: key, anyValue: true}]) {
				return false
			}
		}
		return true
	}
	if ask(x.always) && in(namespace, false) {
		in(pod, true)
	}
}
