package merge

import (
	"strings"

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
	items := m.items(id, v)
	if id.elem == m.container {
		var err error
		if items, err = m.checkContainers(items, at); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		return nil
	}
	if o.fields[name] == nil {
		m.addList(o, name, t, id, items, at)
		return nil
	}
	l, ok := o.list(name, id)
	if !ok {
		return m.podError(at, "a list", o.fields[name])
	}
	if at.keyed == tolerationsPath {
		m.dropDefaultTolerations(l, items, at)
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
	var front, back []any
	for _, it := range items {
		if it.first {
			front = append(front, it.value)
		} else {
			back = append(back, it.value)
		}
	}
	value := append(front, back...)
	m.noteNull(at.keyed, o, name)
	m.set(o, name, at, value)
	m.note(t, at.keyed, value)
	if l, ok := o.list(name, id); ok {
		l.first = len(front)
	}
}

// addItems puts in the items that the list does not have: those that want to be
// first behind the earlier templates' first ones, the others at the end.
func (m *merger) addItems(l *list, items []listItem, at place) {
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
		m.noteItem(l.id.elem, here.keyed, in.item.value)
	}
	l.insert(ins)
	l.first = front + len(ins)
	for _, it := range items {
		if _, have := l.index[it.key]; have {
			continue
		}
		m.emit("add", at.field("-").pointer, it.value)
		m.noteItem(l.id.elem, join(at.keyed, it.key), it.value)
		l.append(it.key, it.value)
	}
}

// mergeItem treats an item that the list has.
func (m *merger) mergeItem(l *list, t *podschema.Type, it listItem, at place) error {
	at = at.with(it.raw)
	listed := m.owners[at.keyed] != ""
	switch {
	case l.id.set():
		if listed {
			m.list(at.keyed)
		}
		return nil
	case l.id.elem == m.container:
		return m.mergeContainer(l, it, at)
	case t == m.volumes && m.bothProjected(l, it) && !m.takenOver(at.keyed):
		if m.record.lists(at.keyed) {
			m.claims[at.keyed] = claim{template: m.frag.Template, t: l.id.elem, value: it.value}
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
	standing := standing{at: at, t: l.id.elem, value: current, stays: m.staysIn(t, at)}
	write, err := m.settle(standing, it.value)
	if err != nil || !write {
		return err
	}
	if other := m.extendedBy(at.keyed); other != "" {
		standing.at.onConflict = Deny
		_, err := m.conflict(standing, it.value, other, "that template extends it, and would lose what it added")
		return err
	}
	m.noteOriginal(at.keyed, current)
	m.emit("replace", at.pointer, it.value)
	l.replace(it.key, it.value)
	m.claims[at.keyed] = claim{template: m.frag.Template, t: l.id.elem, value: it.value, wrote: true}
	return nil
}

// extendedBy names a template of this run that put something into the item at
// path, without the whole item being its own.
func (m *merger) extendedBy(path string) string {
	other := ""
	for inside, c := range m.claims {
		if c.template != m.frag.Template && m.owners[inside] != "" && strings.HasPrefix(inside, path+"/") && (other == "" || c.template < other) {
			other = c.template
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
