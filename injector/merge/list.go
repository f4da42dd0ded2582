package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// listItem is a fragment's item of a list with keys.
type listItem struct {
	key   string
	raw   map[string]any // with directives; nil for scalars
	value any            // without
	first bool
}

// mergeList merges items into a list whose items have keys: those that are
// there are merged, absent ones are put in at their position.
func (m *merger) mergeList(o *object, name string, t *podschema.Type, v []any, at *place) error {
	id, _ := t.Identity()
	deleted, items := readItems(id, v)
	var err error
	if id.Elem.IsContainer() {
		if items, err = m.checkContainers(items, at); err != nil {
			return err
		}
	}
	if o.fields[name] == nil {
		items, err := m.addable(id, nil, items, at)
		if err == nil && len(items) > 0 {
			m.addList(o, name, t, id, items, at)
		}
		return err
	}
	if len(items)+len(deleted) == 0 {
		return nil
	}
	l, ok := o.list(name, id)
	if !ok {
		return m.podError(at, "a list", o.fields[name])
	}
	at = at.inside()
	if err := m.deleteItems(l, deleted, at); err != nil {
		return err
	}
	if at.is("spec", "tolerations") {
		m.dropDefaultTolerations(l, items, at)
	}
	if items, err = m.addable(id, l.index, items, at); err != nil {
		return err
	}
	for _, it := range items {
		if _, ok := l.index[it.key]; !ok {
			continue
		}
		if err := m.mergeItem(l, t, it, at.field(it.key)); err != nil {
			return err
		}
	}
	m.addItems(l, items, at)
	return nil
}

// readItems reads a fragment's list, each item of a set once: the items that
// are to go, and the others.
func readItems(id podschema.Identity, v []any) (deleted, items []listItem) {
	seen := map[string]bool{}
	for _, item := range v {
		value := clean(id.Elem, item)
		key, ok := id.Key(value)
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		raw, _ := item.(map[string]any)
		it := listItem{key: key, raw: raw, value: value, first: isFirst(item)}
		if directive.IsDelete(item) {
			deleted = append(deleted, it)
		} else {
			items = append(items, it)
		}
	}
	return deleted, items
}

// addable returns the items without those that are not there and may not be put
// in, because another template took the pod's away.
func (m *merger) addable(id podschema.Identity, index map[string]int, items []listItem, at *place) ([]listItem, error) {
	kept := make([]listItem, 0, len(items))
	for _, it := range items {
		_, have := index[it.key]
		n := at.field(it.key).find()
		if have || n == nil || !n.gone || n.Templates[0] == m.frag.Template {
			kept = append(kept, it)
			continue
		}
		if id.Elem.IsContainer() && !isSidecar(it) {
			continue // there is nothing left to extend
		}
		if err := m.agree(standing{at: at.field(it.key), t: id.Elem}, it.value, n); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// addList puts the whole list where the wanted pod has none.
func (m *merger) addList(o *object, name string, t *podschema.Type, id podschema.Identity, items []listItem, at *place) {
	order := m.order(at)
	arranged, front := order.arrange(id, items)
	_, null := o.fields[name]
	o.put(name, arranged)
	m.noteAdded(t, at, arranged, null, false)
	order.put(m.frag.Required, front)
}

// addItems puts in the items that the list does not have: those that want to be
// first in front, behind the earlier templates' first ones; the others at the
// end, unless they want to stand before or after another.
func (m *merger) addItems(l *list, items []listItem, at *place) {
	order := m.order(at)
	if len(order.wishes) > 0 {
		m.addOrdered(l, order, items, at)
		return
	}
	var front, back []any
	start := order.front(m.frag.Required)
	for _, it := range items {
		i, have := l.index[it.key]
		switch {
		case have && it.first && at.field(it.key).find().ours():
			start = max(start, i+1)
		case have:
		case it.first:
			front = append(front, it.value)
			m.noteItem(l.id, at.field(it.key), it.value)
		default:
			back = append(back, it.value)
			m.noteItem(l.id, at.field(it.key), it.value)
		}
	}
	if len(front)+len(back) > 0 {
		l.set(slices.Concat(l.items[:start], front, l.items[start:], back))
	}
	order.put(m.frag.Required, start-order.front(m.frag.Required)+len(front))
}

// addOrdered is addItems for a list in which somebody wants to stand before or
// after another: one item after the other, since each may move the next.
func (m *merger) addOrdered(l *list, order *order, items []listItem, at *place) {
	for _, it := range items {
		front := order.front(m.frag.Required)
		if i, have := l.index[it.key]; have {
			if it.first && i >= front && at.field(it.key).find().ours() {
				order.put(m.frag.Required, i+1-front)
			}
			continue
		}
		i := order.index(l.id, l.items, it, front)
		m.noteItem(l.id, at.field(it.key), it.value)
		l.set(slices.Insert(slices.Clone(l.items), i, it.value))
		order.inserted(m.frag.Required, i, it.first)
	}
}

// mergeItem treats an item that the list has.
func (m *merger) mergeItem(l *list, t *podschema.Type, it listItem, at *place) error {
	at = at.with(it.raw)
	n := at.find()
	ours := n.ours()
	m.notePlaced(l, it, at)
	switch {
	case directive.IsReplace(it.raw):
		return m.mergeWholeItem(l, t, it, at.overruling())
	case l.id.Set():
		if ours {
			n.by(m.frag.Template)
		}
		return nil
	case l.id.Elem.IsContainer():
		return m.mergeContainer(l, it, at)
	case bothProjected(l, t, it) && !n.ours():
		return m.mergeObject(l.id.Elem, l.object(it.key), it.raw, at)
	case bothProjected(l, t, it):
		return m.gather(l, it, at)
	case l.id.Elem.IsValue() || ours:
		return m.mergeWholeItem(l, t, it, at)
	default:
		return m.mergeObject(l.id.Elem, l.object(it.key), it.raw, at.inside())
	}
}

// gather merges a projected volume into the one that another template put there.
func (m *merger) gather(l *list, it listItem, at *place) error {
	n := at.find()
	if n.was != nil {
		// The pod had another volume there: this template meets it first.
		s := standing{at: at, t: l.id.Elem, value: n.was}
		if _, wants, err := m.settleWithPod(s, it.value); err != nil || !wants {
			return err
		}
	}
	n.by(m.frag.Template)
	return m.mergeObject(l.id.Elem, l.object(it.key), it.raw, at.inside())
}

// mergeWholeItem treats an item that is one value, or that another template put
// into the list.
func (m *merger) mergeWholeItem(l *list, t *podschema.Type, it listItem, at *place) error {
	current := l.items[l.index[it.key]]
	s := standing{at: at, t: l.id.Elem, value: current, stays: staysIn(t, at)}
	if other := m.wantedInside(at.find()); other != "" && directive.IsReplace(it.raw) {
		return m.disagree(s, it.value, other, "that template extends it, and would lose what it added")
	}
	write, err := m.settle(s, it.value)
	if err != nil || !write {
		return err
	}
	at.note().put(Write, current, true)
	l.replace(it.key, it.value)
	return nil
}

// bothProjected reports whether two volumes of one name gather sources, so that
// they can be one.
func bothProjected(l *list, t *podschema.Type, it listItem) bool {
	if t != volumesType() {
		return false
	}
	current, wanted := objectOf(l.items[l.index[it.key]]), objectOf(it.value)
	_, here := current["projected"].(map[string]any)
	_, there := wanted["projected"].(map[string]any)
	return here && there
}
