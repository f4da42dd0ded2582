package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// mergeObject merges a fragment's object into the pod's, of type t: a struct
// field by field, a map key by key. What goes, goes first.
func (m *merger) mergeObject(t *podschema.Type, o *object, frag *node, at *place) error {
	at = at.with(frag)
	if t == resourcesType() {
		m.derived.noteImpliedRequests(o.fields, at)
	}
	for _, name := range frag.removals() {
		if err := m.deleteField(t, o, name, at.field(name).with(frag.field(name))); err != nil {
			return err
		}
	}
	kept, err := m.mergeUnion(t, o, frag, at)
	if err != nil {
		return err
	}
	for i, name := range frag.fields.names {
		if name == kept || frag.fields.nodes[i].says.Delete {
			continue
		}
		if err := m.mergeField(t, o, name, &frag.fields.nodes[i], at.field(name)); err != nil {
			return err
		}
	}
	if t == resourcesType() {
		m.derived.expectRequests(o.fields, at)
		m.derived.noteResources(o, at)
	}
	return nil
}

func (m *merger) mergeField(t *podschema.Type, o *object, name string, v *node, at *place) error {
	ft := t.Child(name)
	at = at.with(v)
	switch {
	case v.says.Join != nil:
		return m.joinField(ft, o, name, *v.says.Join, at)
	case v.blank:
		return nil
	case v.says.Replace || v.list != nil && v.list.replaces:
		return m.replaceField(t, ft, o, name, v, at)
	case ft != nil && ft.Kind() == podschema.List && !ft.IsValue():
		return m.mergeList(o, name, ft, v, at)
	case o.fields[name] == nil:
		if !v.adds {
			return nil
		}
		if !(at.is("metadata") || at.is("metadata", "annotations")) || !v.joins {
			return m.addField(t, ft, o, name, v, at, false)
		}
		m.makeField(o, name, map[string]any{}, at)
	case ft.IsValue() || ft.IsOneAddition() && at.find().ours() && v.adds:
		return m.mergeValue(t, ft, o, name, v, at)
	}
	c, ok := o.object(name)
	if !ok {
		return m.frag.podFault(at, "an object", o.fields[name])
	}
	if at.find().replaces(m.frag.Template) {
		return m.beside(ft, v, at)
	}
	return m.mergeObject(ft, c, v, at.inside())
}

// beside merges a fragment's object where another template replaces the pod's
// object as a whole. The template meets the base pod, as everywhere. If it wants
// to change something there, or wants what the other template's object does not
// have, the two disagree.
func (m *merger) beside(t *podschema.Type, frag *node, at *place) error {
	n := at.find()
	was, _ := n.was.(map[string]any)
	alone, err := m.trial(t, was, frag, at)
	if err != nil {
		return err
	}
	if alone.Edits() || alone.unmet(t, n.desired.Value) != nil {
		return m.disagree(existing{at: at, value: n.desired.Value}, frag.value, n.Templates[0], "that template replaces the whole of it")
	}
	return nil
}

// trial returns what a fragment's object alone changes in an object of the base pod.
func (m *merger) trial(t *podschema.Type, was map[string]any, frag *node, at *place) (*Change, error) {
	alone, from := *m, *at
	alone.joinings = nil
	from.node, from.owner = &Change{}, ""
	if err := alone.mergeObject(t, newObject(was), frag, &from); err != nil {
		return nil, err
	}
	return from.node, alone.joinAll()
}

// addField puts a value where the wanted pod has none. Whole says that all of
// the value is one item, whatever its type.
func (m *merger) addField(t, ft *podschema.Type, o *object, name string, v *node, at *place, whole bool) error {
	value := v.value
	s := existing{at: at, t: ft}
	if n := at.find(); n.asked() {
		// Another template takes away what stood there, or wants the default that an
		// absent value means.
		return m.agree(s, value, n)
	}
	if podschema.WouldBeDefault(t, o.fields, name, value) {
		at.note().claim(m.frag.Template, ft, value, false)
		return nil
	}
	o.put(name, value)
	at.noteAdded(m.frag.Template, ft, value, whole)
	if ft == resourcesType() {
		m.derived.expectRequests(value.(map[string]any), at)
	}
	m.derived.follow(o, at)
	return nil
}

// mergeValue treats a value that is one whole and that the wanted pod has, too.
func (m *merger) mergeValue(t, ft *podschema.Type, o *object, name string, v *node, at *place) error {
	value := v.value
	s := existing{
		at: at, t: ft, value: o.fields[name], stays: staysIn(t, at),
		unset: func(v any) bool { return m.derived.countsAsUnset(t, name, v, o.fields, at) },
	}
	write, err := m.settle(s, value)
	if err != nil || !write {
		return err
	}
	at.note().put(Write, o.fields[name])
	o.put(name, value)
	m.derived.follow(o, at)
	return nil
}

// replaceField puts the fragment's value in the place of all that the pod has
// in a field.
func (m *merger) replaceField(t, ft *podschema.Type, o *object, name string, v *node, at *place) error {
	at = at.overruling()
	if o.fields[name] == nil {
		if !v.adds && ft.Kind() != podschema.List {
			return nil
		}
		return m.addField(t, ft, o, name, v, at, true)
	}
	if n := at.find(); n != nil && !n.Writes() {
		if other := m.wantedInside(n); other != "" {
			return m.disagree(existing{at: at, t: ft, value: o.fields[name]}, v.value, other, "that template would lose its part")
		}
	}
	return m.mergeValue(t, ft, o, name, v, at)
}

// staysIn reports whether a pod's own values in a map or list of type t win
// without a conflict: labels and annotations always, environment and mounts in
// a container that is the pod's own.
func staysIn(t *podschema.Type, at *place) bool {
	return t != nil && staysTypes()[t] && (t.Kind() == podschema.Map || at.stays)
}

// mergeUnion treats fields of which at most one may be set: if the pod has
// another one than the fragment, they conflict. It returns the fragment's field
// that is not to be set, if the pod's stays.
func (m *merger) mergeUnion(t *podschema.Type, o *object, frag *node, at *place) (skip string, err error) {
	wanted, others := "", []string{}
	for _, name := range t.Unions() {
		if frag.setsField(name) {
			wanted = name
		} else {
			others = append(others, name)
		}
	}
	if wanted == "" {
		return "", nil
	}
	here := at.field(wanted).with(frag.field(wanted))
	value := map[string]any{wanted: frag.field(wanted).value}
	for _, name := range others {
		goes, err := m.makeRoom(t, o, name, value, at, here)
		if err != nil || !goes {
			return wanted, err
		}
	}
	return "", nil
}

const onlyOne = "only one of them can be set"

// makeRoom takes a field of a union away, where the template wants value at
// another one. It reports false if the pod's field stays.
func (m *merger) makeRoom(t *podschema.Type, o *object, name string, value any, at, here *place) (bool, error) {
	there := at.field(name)
	n := there.find()
	stands := existing{at: here, value: map[string]any{name: o.fields[name]}}
	switch {
	case n.gone() && slices.Contains(n.Templates, m.frag.Template):
		return true, nil // the template says so itself
	case at.owner != "" && o.fields[name] != nil:
		return false, m.disagree(stands, value, at.owner, onlyOne)
	}
	if base := m.baseOf(existing{at: there, value: o.fields[name]}); base != nil && at.owner == "" {
		if at.author {
			m.warnings.keep(here, Kept{Template: m.frag.Template, Why: KeptByOverridable, Has: map[string]any{name: base}, Wants: value}, true)
			return false, nil
		}
		goes, err := m.conflict(here.onConflict, existing{at: here}, map[string]any{name: base}, value, onlyOne)
		if err != nil || !goes {
			return false, err
		}
	}
	if other := m.wantedThere(n); other != "" {
		return false, m.disagree(stands, value, other, onlyOne)
	}
	if o.fields[name] != nil {
		m.take(t.Child(name), o, name, there)
	}
	return true, nil
}

// take takes a field away that a template wants gone.
func (m *merger) take(t *podschema.Type, o *object, name string, at *place) {
	n := at.note()
	n.put(Remove, o.fields[name])
	n.claim(m.frag.Template, t, nil, true)
	o.remove(name)
}
