package merge

import (
	"github.com/pillion-dev/pillion/templates/podschema"
)

// $unset, $patch: delete and $patch: replace say outright that something of the
// pod's goes. They do it, whatever the template's onConflict is; only a
// $onConflict at the node or around it says otherwise. Another template's item
// stays: what one template puts in, no other takes out.

// deleteField takes a field of the pod's away.
func (m *merger) deleteField(t *podschema.Type, o *object, name string, at *place) error {
	at = at.overruling()
	ft, n := t.Child(name), at.find()
	s := standing{at: at, t: ft, value: o.fields[name]}
	base := s.base()
	if other := m.wantedByAnother(n); other != "" {
		return m.disagree(s, nil, other, "that template wants it")
	}
	switch {
	case n != nil && n.gone:
		n.by(m.frag.Template)
		return nil
	case base == nil || n.ours() || m.countsAsUnset(t, name, base, o.fields, at):
		return nil
	}
	write, err := m.conflict(at.onConflict, s, base, nil, "")
	if err != nil || !write {
		return err
	}
	m.take(ft, o, name, at)
	return nil
}

// wantedByAnother names a template that wants something at n or inside it.
func (m *merger) wantedByAnother(n *Change) string {
	switch {
	case n == nil:
		return ""
	case n.kept != "" && n.kept != m.frag.Template:
		return n.kept
	case n.asked && !n.gone && !n.only(m.frag.Template):
		return n.Templates[0]
	}
	return m.wantedInside(n)
}

// deleteItems takes items of the pod's away, and with each the others of the same
// key, which environments may have.
func (m *merger) deleteItems(l *list, deleted []listItem, list *place) error {
	going := map[string]bool{}
	for _, it := range deleted {
		goes, err := m.deletes(l, it, list)
		if err != nil {
			return err
		}
		if goes {
			going[it.key] = true
		}
	}
	if len(going) == 0 {
		return nil
	}
	m.removeItems(l, list, going)
	return nil
}

// deletes decides whether an item of the pod's goes.
func (m *merger) deletes(l *list, it listItem, list *place) (bool, error) {
	i, have := l.index[it.key]
	at := list.field(it.key).with(it.raw).overruling()
	n := at.find()
	s := standing{at: at, t: l.id.Elem}
	if have {
		s.value = l.items[i]
	}
	if other := m.wantedByAnother(n); other != "" {
		return false, m.disagree(s, nil, other, "that template wants it")
	}
	switch {
	case n != nil && n.gone:
		n.by(m.frag.Template)
		return false, nil
	case !have || n.ours():
		return false, nil
	}
	return m.conflict(at.onConflict, s, s.value, nil, "")
}

// removeItems takes all items of the keys out of a list.
func (m *merger) removeItems(l *list, list *place, keys map[string]bool) {
	for key := range keys {
		n := list.field(key).note()
		n.put(Remove, l.items[l.index[key]], true)
		n.claim(m.frag.Template, l.id.Elem, nil, true)
		if l.id.Elem.IsContainer() {
			delete(m.names, key)
		}
	}
	l.removeAll(keys)
}
