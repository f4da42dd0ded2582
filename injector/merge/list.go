package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// listMerger merges a fragment's items into one list of the wanted pod.
type listMerger struct {
	*merger
	t    *podschema.Type
	list *list
	at   *place
}

// mergeList merges items into a list whose items have keys: those that are
// there are merged, absent ones are put in at their position.
func (m *merger) mergeList(o *object, name string, t *podschema.Type, v *node, at *place) error {
	id, _ := t.Identity()
	deleted, items := v.list.deleted, v.list.items
	if !id.Elem.IsContainer() {
		return m.mergeItems(o, name, t, deleted, items, at)
	}
	items, elsewhere, err := m.checkContainers(items, at)
	if err != nil {
		return err
	}
	for list, extensions := range elsewhere { // there is one other list
		if err := m.mergeItems(o, list, podschema.At("spec."+list), nil, extensions, at.parent.field(list)); err != nil {
			return err
		}
	}
	return m.mergeItems(o, name, t, deleted, items, at)
}

func (m *merger) mergeItems(o *object, name string, t *podschema.Type, deleted, items []listItem, at *place) error {
	id, _ := t.Identity()
	if n := at.find(); o.fields[name] == nil && len(items) > 0 && n.gone() {
		return m.agree(existing{at: at, t: t}, valuesOf(items), n)
	}
	if o.fields[name] == nil && slices.ContainsFunc(items, func(it listItem) bool { return len(it.texts) > 0 }) {
		m.makeField(o, name, []any{}, at)
	}
	if o.fields[name] == nil {
		items, err := m.addable(id, nil, items, at)
		if err == nil && len(items) > 0 {
			m.addList(o, name, t, items, at)
		}
		return err
	}
	if len(items)+len(deleted) == 0 {
		return nil
	}
	l, ok := o.listOf(name, id)
	if !ok {
		return m.frag.podFault(at, "a list", o.fields[name])
	}
	return (&listMerger{merger: m, t: t, list: l, at: at.inside()}).merge(deleted, items)
}

func (m *listMerger) merge(deleted, items []listItem) error {
	if err := m.deleteItems(deleted); err != nil {
		return err
	}
	if m.at.is("spec", "tolerations") {
		m.dropDefaultTolerations(items)
	}
	items, err := m.addable(m.list.id, m.list, items, m.at)
	if err != nil {
		return err
	}
	for _, it := range items {
		if _, ok := m.list.find(it.key); !ok {
			continue
		}
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if err := m.mergeItem(it, m.at.field(it.key)); err != nil {
			return err
		}
	}
	m.addItems(items)
	return nil
}

func valuesOf(items []listItem) []any {
	values := make([]any, len(items))
	for i, it := range items {
		values[i] = it.value
	}
	return values
}

// addable returns the items without those that are not there and may not be put
// in, because another template took the pod's away.
func (m *merger) addable(id podschema.Identity, l *list, items []listItem, at *place) ([]listItem, error) {
	kept := make([]listItem, 0, len(items))
	for _, it := range items {
		have := false
		if l != nil {
			_, have = l.find(it.key)
		}
		n := at.field(it.key).find()
		if have || !n.gone() || n.Templates[0] == m.frag.Template {
			kept = append(kept, it)
			continue
		}
		if id.Elem.IsContainer() && !isSidecar(it) {
			continue // there is nothing left to extend
		}
		if err := m.agree(existing{at: at.field(it.key), t: id.Elem}, it.value, n); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// addList puts the whole list where the wanted pod has none.
func (m *merger) addList(o *object, name string, t *podschema.Type, items []listItem, at *place) {
	id, _ := t.Identity()
	o.put(name, valuesOf(items))
	at.noteAdded(m.frag.Template, t, o.fields[name], false)
	order := orderOf(at)
	order.list, _ = o.listOf(name, id)
	order.put(m.frag, items)
}

// addItems puts in the items that the list does not have, for [merger.arrangeLists] to order.
func (m *listMerger) addItems(items []listItem) {
	items = slices.DeleteFunc(slices.Clone(items), func(it listItem) bool {
		_, have := m.list.find(it.key)
		return have
	})
	if len(items) == 0 {
		return
	}
	for _, it := range items {
		m.noteNew(it)
	}
	m.list.add(items)
	order := orderOf(m.at)
	order.list = m.list
	order.put(m.frag, items)
}

// noteNew notes an item that is put in.
func (m *listMerger) noteNew(it listItem) {
	at := m.at.field(it.key)
	if len(it.texts) == 0 {
		at.noteItem(m.frag.Template, m.list.id, it.value)
		return
	}
	m.join(joining{at: at, list: m.list, key: it.key}, it.texts, true)
}

// mergeItem treats an item that the list has.
func (m *listMerger) mergeItem(it listItem, at *place) error {
	at = at.with(it.node)
	n := at.find()
	ours := n.ours()
	switch {
	case len(it.texts) > 0:
		m.join(joining{at: at, list: m.list, key: it.key}, it.texts, false)
		return nil
	case it.says.Replace:
		return m.mergeWholeItem(it, at.overruling())
	case m.list.id.Set():
		if ours {
			n.by(m.frag.Template)
		}
		return nil
	case m.list.id.Elem.IsContainer():
		return m.mergeContainer(it, at)
	case m.bothProjected(it) && n.ours():
		return m.gather(it, at)
	case m.bothProjected(it) && !m.frag.Required: // a later source of the pod's could overrule a required one
		return m.mergeObject(m.list.id.Elem, m.list.object(it.key), it.node, at)
	case m.list.id.Elem.IsValue() || ours:
		return m.mergeWholeItem(it, at)
	case n.replaces(m.frag.Template):
		return m.beside(m.list.id.Elem, it.node, at)
	default:
		return m.mergeObject(m.list.id.Elem, m.list.object(it.key), it.node, at.inside())
	}
}

// gather merges a projected volume into the one that another template put there.
func (m *listMerger) gather(it listItem, at *place) error {
	n := at.find()
	if n.was != nil {
		// The pod had another volume there: this template meets it first.
		s := existing{at: at, t: m.list.id.Elem, value: n.was}
		if _, wants, err := m.settleWithPod(s, it.value); err != nil || !wants {
			return err
		}
	}
	n.by(m.frag.Template)
	return m.mergeObject(m.list.id.Elem, m.list.object(it.key), it.node, at.inside())
}

// mergeWholeItem treats an item that is one value, or that another template put
// into the list.
func (m *listMerger) mergeWholeItem(it listItem, at *place) error {
	current := m.list.at(it.key)
	s := existing{at: at, t: m.list.id.Elem, value: current, stays: staysIn(m.t, at)}
	if other := m.wantedInside(at.find()); other != "" && it.says.Replace {
		return m.disagree(s, it.value, other, "that template extends it, and would lose its additions")
	}
	write, err := m.settle(s, it.value)
	if err != nil || !write {
		return err
	}
	at.note().put(Write, current)
	m.list.replace(it.key, it.value)
	return nil
}

// bothProjected reports whether two volumes of one name gather sources, so that
// they can be one.
func (m *listMerger) bothProjected(it listItem) bool {
	if m.t != volumesType() {
		return false
	}
	current, wanted := objectOf(m.list.at(it.key)), objectOf(it.value)
	_, here := current["projected"].(map[string]any)
	_, there := wanted["projected"].(map[string]any)
	return here && there
}
