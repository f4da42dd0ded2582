package merge

import "github.com/pillion-dev/pillion/templates/podschema"

// Under the same hash and parameters a template can still want something else
// than it wrote, because it is rendered from the base pod and another webhook
// changed that: a mesh proxy lists the probes of a container that came later.
// What nobody changed since it was written then becomes what is wanted now, and
// what somebody changed or took out stays as they made it.

const changedSince = "somebody changed it since the template wrote it, so it stays, and what the template wants there now is left out"

// keepsUp reports whether what the template wrote under this path can be told
// from what others made of it.
func (m *merger) keepsUp(path string) bool {
	earlier, claimed := m.claims[path]
	return m.same && m.record.signs && m.record.lists(path) && !(claimed && earlier.wrote)
}

// outdated decides about one value of the template's own that the pod has.
func (m *merger) outdated(t *podschema.Type, at place, current, wanted any, unset bool) bool {
	switch {
	case !m.record.signs || m.signed(t, at.keyed, wanted) || equal(t, current, wanted):
		return false
	case unset || m.signed(t, at.keyed, current):
		return true
	default:
		m.warn(at, changedSince)
		return false
	}
}

// refreshObject brings the template's own object, of type t, up to date.
func (m *merger) refreshObject(t *podschema.Type, o *object, wanted map[string]any, at place) {
	for _, name := range fieldsOf(wanted) {
		m.refreshField(t, o, name, wanted[name], at.field(name))
	}
}

func (m *merger) refreshField(t *podschema.Type, o *object, name string, wanted any, at place) {
	ft := child(t, name)
	switch current := o.fields[name]; {
	case m.signed(ft, at.keyed, wanted):
	case current == nil:
		m.set(o, name, at, wanted)
		m.sign(ft, at.keyed, wanted)
	case m.isValue(ft) || m.added[ft]:
		if m.outdated(ft, at, current, wanted, wouldBeDefault(t, o.fields, name, current)) {
			m.set(o, name, at, wanted)
			m.resign(ft, at.keyed, current, wanted)
		}
	case ft.Kind() == podschema.List:
		m.refreshList(o, name, ft, wanted, at)
	default:
		c, ok := o.object(name)
		if fields, isObject := wanted.(map[string]any); ok && isObject {
			m.refreshObject(ft, c, fields, at)
		}
	}
}

func (m *merger) refreshList(o *object, name string, t *podschema.Type, wanted any, at place) {
	id, _ := m.identityOf(t)
	l, ok := o.list(name, id)
	items, isList := wanted.([]any)
	if !ok || !isList {
		return
	}
	for _, it := range m.items(id, items) {
		i, have := l.index[it.key]
		here := at.item(it.key, i)
		switch {
		case m.signedItem(id, here.keyed, it.value):
		case !have:
			m.emit("add", at.field("-").pointer, it.value)
			l.append(it.key, it.value)
			m.signItem(id, here.keyed, it.value)
		case id.set():
		case m.isValue(id.elem) || m.added[id.elem]:
			if current := l.items[i]; m.outdated(id.elem, here, current, it.value, false) {
				m.emit("replace", here.pointer, it.value)
				l.replace(it.key, it.value)
				m.resign(id.elem, here.keyed, current, it.value)
			}
		default:
			m.refreshObject(id.elem, l.object(it.key), it.value.(map[string]any), here)
		}
	}
}
