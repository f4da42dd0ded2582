package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// listItem is a fragment's item of a list with an identity.
type listItem struct {
	key   string
	raw   map[string]any // with directives; nil for scalars
	value any            // without
	first bool
}

// mergeList merges items into a list whose items have an identity: those that
// are there are merged, absent ones put in at their position.
func (m *merger) mergeList(o *object, name string, t *podschema.Type, v []any, at place) error {
	id, _ := m.identityOf(t)
	deleted, items := splitDeleted(m.items(id, v))
	if id.elem == m.container {
		var err error
		if items, err = m.checkContainers(items, at); err != nil {
			return err
		}
	}
	if o.fields[name] == nil {
		for _, it := range deleted {
			if m.tookBefore(id, it, at.keyed) {
				m.claimAbsent(id.elem, join(at.keyed, it.key), false)
			}
		}
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
	if err := m.deleteItems(l, deleted, at); err != nil {
		return err
	}
	if at.keyed == tolerationsPath {
		m.dropDefaultTolerations(l, items, at)
	}
	items, err := m.addable(id, l.index, items, at)
	if err != nil {
		return err
	}
	for _, it := range items {
		i, ok := l.index[it.key]
		if !ok {
			continue
		}
		if err := m.mergeItem(l, t, it, at.item(it.key, i)); err != nil {
			return err
		}
	}
	m.addItems(l, items, at)
	return nil
}

// addable returns the items without those that are not there and may not be put
// in, because an earlier template of this run took them away.
func (m *merger) addable(id identity, index map[string]int, items []listItem, at place) ([]listItem, error) {
	kept := make([]listItem, 0, len(items))
	for _, it := range items {
		_, have := index[it.key]
		here := at.item(it.key, len(index)).with(it.raw)
		earlier := m.claims[here.keyed]
		if have || !earlier.took || earlier.template == m.frag.Template {
			add, err := m.addableAfterAnother(id, it, here, have)
			if err != nil {
				return nil, err
			}
			if add {
				kept = append(kept, it)
			}
			continue
		}
		if id.elem == m.container && !isSidecar(it) {
			continue // there is nothing left to extend
		}
		add, err := m.conflict(standing{at: here, t: id.elem}, it.value, earlier.template, "that template deletes it")
		if err != nil {
			return nil, err
		}
		if add {
			kept = append(kept, it)
		}
	}
	return kept, nil
}

// addableAfterAnother decides about an item that is not there, or is a later template's,
// because a template took the pod's away of which this run has not come by: that decides
// nothing for this one, which had left it alone.
func (m *merger) addableAfterAnother(id identity, it listItem, at place, have bool) (bool, error) {
	_, claimed := m.claims[at.keyed]
	if have && m.owners[at.keyed] == "" || claimed || len(m.carried) == 0 || m.record.lists(at.keyed) {
		return true, nil
	}
	gone := m.gone(id, parent(at.keyed))[it.key]
	i := slices.IndexFunc(gone, func(r takenOut) bool { return r.template != m.frag.Template })
	switch {
	case i < 0:
		return true, nil
	case !id.set() && !m.isValue(id.elem):
		return false, nil
	default:
		return m.settleAfresh(standing{at: at, t: id.elem, value: gone[i].Value, stays: at.stays}, it.value)
	}
}

// items reads a fragment's list, each item of a set once.
func (m *merger) items(id identity, v []any) []listItem {
	items := make([]listItem, 0, len(v))
	seen := map[string]bool{}
	for _, item := range v {
		value := m.clean(id.elem, item)
		key, ok := id.key(value)
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		raw, _ := item.(map[string]any)
		items = append(items, listItem{key: key, raw: raw, value: value, first: isFirst(item)})
	}
	return items
}

// addList puts the whole list where the pod has none.
func (m *merger) addList(o *object, name string, t *podschema.Type, id identity, items []listItem, at place) {
	arranged, front := m.orders[at.keyed].arrange(id, items)
	m.noteNull(at.keyed, o, name)
	m.set(o, name, at, arranged)
	m.note(t, at.keyed, arranged)
	if l, ok := o.list(name, id); ok {
		l.first = front
	}
}

// addItems puts in the items that the list does not have: those that want to be
// first behind the earlier templates' first ones, the others at the end, unless
// they want to stand before or after another.
func (m *merger) addItems(l *list, items []listItem, at place) {
	if order := m.orders[at.keyed]; order != nil {
		m.addOrdered(l, order, items, at)
		return
	}
	var ins []insertion
	front := l.first
	for _, it := range items {
		i, have := l.index[it.key]
		switch {
		case !it.first:
		case have && m.owners[join(at.keyed, it.key)] != "":
			front = max(front, i+1)
		case !have:
			ins = append(ins, insertion{before: front, item: it})
		}
	}
	for n, in := range ins {
		here := at.item(in.item.key, in.before+n)
		m.emit("add", here.pointer, in.item.value)
		m.noteItem(l.id, here.keyed, in.item.value)
	}
	l.insert(ins)
	l.first = front + len(ins)
	for _, it := range items {
		if _, have := l.index[it.key]; have {
			continue
		}
		m.emit("add", at.field("-").pointer, it.value)
		m.noteItem(l.id, join(at.keyed, it.key), it.value)
		l.append(it.key, it.value)
	}
}

// addOrdered is addItems for a list in which somebody wants to stand before or
// after another: one item after the other, since each may move the next.
func (m *merger) addOrdered(l *list, order *order, items []listItem, at place) {
	for _, it := range items {
		if i, have := l.index[it.key]; have {
			if it.first && m.owners[join(at.keyed, it.key)] != "" {
				l.first = max(l.first, i+1)
			}
			continue
		}
		i := order.index(l.id, l.items, it, l.first)
		here := at.item(it.key, i)
		if i == len(l.items) {
			m.emit("add", at.field("-").pointer, it.value)
		} else {
			m.emit("add", here.pointer, it.value)
		}
		m.noteItem(l.id, here.keyed, it.value)
		l.insert([]insertion{{before: i, item: it}})
		if it.first {
			l.first = i + 1
		} else if i < l.first {
			l.first++
		}
	}
}

// mergeItem treats an item that the list has.
func (m *merger) mergeItem(l *list, t *podschema.Type, it listItem, at place) error {
	at = at.with(it.raw)
	listed := m.owners[at.keyed] != ""
	if isReplace(it.raw) {
		return m.mergeWholeItem(l, t, it, at.overruling())
	}
	switch {
	case l.id.set():
		if listed {
			m.list(at.keyed)
			m.claim(standing{at: at, t: l.id.elem}, it.value, false)
		}
		return nil
	case l.id.elem == m.container:
		return m.mergeContainer(l, it, at)
	case t == m.volumes && m.bothProjected(l, it) && !m.takenOver(at.keyed):
		if m.record.lists(at.keyed) {
			m.want(at.keyed, claim{template: m.frag.Template, t: l.id.elem, value: it.value})
		}
		return m.mergeObject(l.id.elem, l.object(it.key), it.raw, m.inside(at))
	case m.isValue(l.id.elem) || listed:
		return m.mergeWholeItem(l, t, it, at)
	default:
		return m.mergeObject(l.id.elem, l.object(it.key), it.raw, m.inside(at))
	}
}

// takenOver reports whether another template, of which this run has not come by,
// put its own item in the place of the pod's. This one then treats what the pod
// had.
func (m *merger) takenOver(path string) bool {
	_, claimed := m.claims[path]
	return !claimed && m.originals[path] != nil && !m.stakes[path]
}

// inside returns the place for what is in the item at.
func (m *merger) inside(at place) place {
	if owner := m.owners[at.keyed]; owner != "" {
		at.owner = owner
	}
	return at
}

func (m *merger) mergeWholeItem(l *list, t *podschema.Type, it listItem, at place) error {
	current := l.items[l.index[it.key]]
	if m.keepsUp(at.keyed) && !m.isValue(l.id.elem) {
		m.warnAgain(standing{at: at, t: l.id.elem}, it.value)
		m.claim(standing{at: at, t: l.id.elem}, it.value, false)
		if !m.signedItem(l.id, at.keyed, it.value) {
			m.refreshObject(l.id.elem, l.object(it.key), it.value.(map[string]any), at)
		}
		return nil
	}
	standing := standing{at: at, t: l.id.elem, value: m.withoutToken(l.id.elem, current), stays: m.staysIn(t, at)}
	write, err := m.settle(standing, it.value)
	if err != nil || !write {
		return err
	}
	if other := m.extendedBy(at.keyed); other != "" {
		standing.at = at.denying()
		_, err := m.conflict(standing, it.value, other, "that template extends it, and would lose what it added")
		return err
	}
	m.noteOriginal(at.keyed, current)
	m.itemDigests(l.id, at.keyed, current, func(d string) { delete(m.record.wrote, d) })
	m.signItem(l.id, at.keyed, it.value)
	m.emit("replace", at.pointer, it.value)
	l.replace(it.key, it.value)
	m.want(at.keyed, claim{template: m.frag.Template, t: l.id.elem, value: it.value, wrote: true})
	return nil
}

// extendedBy names a template of this run that put something into the item at
// path, without the whole item being its own.
func (m *merger) extendedBy(path string) string {
	other := ""
	for _, inside := range m.below[path] {
		if c, ok := m.claims[inside]; ok && c.template != m.frag.Template && (m.owners[inside] != "" || c.took) && (other == "" || c.template < other) {
			other = c.template
		}
		if deeper := m.extendedBy(inside); deeper != "" && (other == "" || deeper < other) {
			other = deeper
		}
	}
	return other
}

// bothProjected reports whether two volumes of one name gather sources, so that
// they can be one.
func (m *merger) bothProjected(l *list, it listItem) bool {
	current, _ := l.items[l.index[it.key]].(map[string]any)
	wanted, _ := it.value.(map[string]any)
	_, here := current["projected"].(map[string]any)
	_, there := wanted["projected"].(map[string]any)
	return here && there && !(m.same && m.record.lists(join("/spec/volumes", it.key)))
}
