package merge

import "github.com/pillion-dev/pillion/templates/podschema"

func (m *merger) emit(op string, path []string, v any) {
	m.edits = append(m.edits, Edit{Op: op, Path: path, Value: v})
}

// set puts v into a field of the pod. The value belongs to the edit from now
// on; the merge copies before it changes anything inside.
func (m *merger) set(o *object, name string, at place, v any) {
	op := "add"
	if _, ok := o.fields[name]; ok {
		op = "replace"
	}
	m.emit(op, at.pointer, v)
	o.put(name, v)
}

func (m *merger) unset(o *object, name string, at place) {
	m.emit("remove", at.pointer, nil)
	o.remove(name)
}

// list records the item at path as the template's.
func (m *merger) list(path string) {
	if _, ok := m.record.overwrote[path]; !ok {
		m.record.items[path] = true
		m.undo.noteItem(path)
	}
	m.own(path, m.record.name)
}

// noteOriginal records what stood at path before Pillion, and that the item is
// the template's now.
func (m *merger) noteOriginal(path string, v any) {
	if _, have := m.originals[path]; !have && m.owners[path] == "" {
		m.record.overwrote[path] = v
		m.originals[path] = v
		m.undo.noteOriginal(path, v, m.record.created[path])
	}
	m.list(path)
}

// noteRemoved records an item that is taken out of a list.
func (m *merger) noteRemoved(list string, r Removed) {
	m.record.removed[list] = append(m.record.removed[list], r)
	m.undo.noteRemoved(list, m.record.name, r)
}

// noteNull records that a field which gets a value was null, not absent.
func (m *merger) noteNull(path string, o *object, name string) {
	_, null := o.fields[name]
	if _, have := m.originals[path]; null && !have && m.owners[path] == "" {
		m.record.overwrote[path] = nil
		m.originals[path] = nil
		m.undo.noteOriginal(path, nil, m.record.created[path])
	}
}

// create records that the template made the object or list at path.
func (m *merger) create(path string) {
	// Where something else stood, that comes back whatever becomes of this.
	if m.originals[path] == nil && !m.made[path] {
		m.record.created[path] = true
		m.made[path] = true
		m.undo.noteCreated(path)
		if original, ok := m.record.overwrote[path]; ok {
			m.undo.noteOriginal(path, original, true)
		}
	}
}

// note records a value that was put where the pod had none: as one item, or as
// a created object or list and the items in it.
func (m *merger) note(t *podschema.Type, path string, v any) {
	if m.isAddedWhole(t) {
		m.sign(t, path, v)
		m.noteWhole(t, path, v)
		return
	}
	m.create(path)
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			m.note(child(t, name), join(path, name), value)
		}
	case []any:
		id, _ := m.identityOf(t)
		for _, item := range v {
			if key, ok := id.key(item); ok {
				m.noteItem(id, join(path, key), item)
			}
		}
	}
}

func (m *merger) noteItem(id identity, path string, v any) {
	if !id.set() {
		m.signItem(id, path, v)
	}
	m.noteWhole(id.elem, path, v)
}

func (m *merger) noteWhole(t *podschema.Type, path string, v any) {
	m.list(path)
	m.want(path, claim{template: m.frag.Template, t: t, value: v, wrote: true})
}
