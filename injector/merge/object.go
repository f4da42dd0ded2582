package merge

import (
	"github.com/pillion-dev/pillion/templates/podschema"
)

// mergeObject merges a fragment's object into the pod's, of type t: a struct
// field by field, a map key by key. What goes, goes first.
func (m *merger) mergeObject(t *podschema.Type, o *object, frag map[string]any, at place) error {
	at = at.with(frag)
	if t == m.resources {
		m.noteImpliedRequests(o.fields, at)
	}
	for _, name := range removals(frag) {
		if err := m.deleteField(t, o, name, at.field(name).with(objectOf(frag[name]))); err != nil {
			return err
		}
	}
	kept, err := m.mergeUnion(t, o, frag, at)
	if err != nil {
		return err
	}
	for _, name := range fieldsOf(frag) {
		if name == kept || isDelete(frag[name]) {
			continue
		}
		if err := m.mergeField(t, o, name, frag[name], at.field(name)); err != nil {
			return err
		}
	}
	if t == m.resources {
		m.expectRequests(o.fields, at)
		m.followLimits(o, at)
	}
	return nil
}

func (m *merger) mergeField(t *podschema.Type, o *object, name string, v any, at place) error {
	ft := child(t, name)
	at = at.with(objectOf(v))
	if m.blank(ft, v) || !m.isValue(ft) && m.takenOver(at.keyed) {
		return nil
	}
	if ft != nil && ft.Kind() == podschema.List && !m.isValue(ft) {
		if replacesList(v) {
			return m.replaceField(t, ft, o, name, v, at)
		}
		return m.mergeList(o, name, ft, v.([]any), at)
	}
	if isReplace(v) {
		return m.replaceField(t, ft, o, name, v, at)
	}
	if o.fields[name] == nil {
		if !m.adds(ft, v) {
			return nil
		}
		return m.addField(t, ft, o, name, v, at, false)
	}
	if m.isValue(ft) || m.added[ft] && m.owners[at.keyed] != "" && m.adds(ft, v) {
		return m.mergeValue(t, ft, o, name, v, at)
	}
	if earlier := m.claims[at.keyed]; earlier.took && earlier.template != m.frag.Template && !m.stakes[at.keyed] {
		// What stands there is a later template's: for this one there is nothing.
		if write, err := m.settleWithTemplate(standing{at: at, t: ft}, m.clean(ft, v), earlier); err != nil || !write {
			return err
		}
	}
	c, ok := o.object(name)
	if !ok {
		return m.podError(at, "an object", o.fields[name])
	}
	return m.mergeObject(ft, c, v.(map[string]any), at)
}

// addField puts a value where the pod has none, in one edit. Whole says that all
// of it is one item, whatever its type.
func (m *merger) addField(t, ft *podschema.Type, o *object, name string, v any, at place, whole bool) error {
	value := m.clean(ft, v)
	if earlier, claimed := m.claims[at.keyed]; claimed {
		// It wants the default that an absent value means.
		if write, err := m.settleWithTemplate(standing{at: at, t: ft}, value, earlier); err != nil || !write {
			return err
		}
	} else if original := m.originals[at.keyed]; original != nil && m.isValue(ft) && m.takenOver(at.keyed) {
		// Another template took the pod's value away: that decides nothing for this
		// one.
		if write, err := m.settleAfresh(standing{at: at, t: ft, value: original, stays: m.staysIn(t, at)}, value); err != nil || !write {
			return err
		}
	} else if wouldBeDefault(t, o.fields, name, value) {
		m.want(at.keyed, claim{template: m.frag.Template, t: ft, value: value})
		return nil
	}
	m.noteNull(at.keyed, o, name)
	m.set(o, name, at, value)
	if whole {
		m.sign(ft, at.keyed, value)
		m.noteWhole(ft, at.keyed, value)
	} else {
		m.note(ft, at.keyed, value)
	}
	if ft == m.resources {
		m.expectRequests(value.(map[string]any), at)
	}
	m.follow(o, at)
	return nil
}

// mergeValue treats a value that is one whole and that the pod has, too.
func (m *merger) mergeValue(t, ft *podschema.Type, o *object, name string, v any, at place) error {
	value := m.clean(ft, v)
	if m.keepsUp(at.keyed) && !m.isValue(ft) && !m.added[ft] {
		m.claim(standing{at: at, t: ft}, value, false)
		m.refreshField(t, o, name, value, at)
		return nil
	}
	write, err := m.settle(standing{
		at: at, t: ft, value: o.fields[name], stays: m.staysIn(t, at),
		unset: func(v any) bool { return m.countsAsUnset(t, name, v, o.fields, at) },
	}, value)
	if err != nil || !write {
		return err
	}
	m.noteOriginal(at.keyed, o.fields[name])
	m.resign(ft, at.keyed, o.fields[name], value)
	m.set(o, name, at, value)
	m.want(at.keyed, claim{template: m.frag.Template, t: ft, value: value, wrote: true})
	m.follow(o, at)
	return nil
}

// staysIn reports whether a pod's own values in a map or list of type t win
// without a conflict: labels and annotations always, environment and mounts in
// a container that is the pod's own.
func (m *merger) staysIn(t *podschema.Type, at place) bool {
	return t != nil && m.stays[t] && (t.Kind() == podschema.Map || at.stays)
}

// follow does what setting one field makes necessary in others.
func (m *merger) follow(o *object, at place) {
	switch at.keyed {
	case "/spec/serviceAccountName":
		m.followServiceAccount(o)
	case "/spec/priorityClassName":
		m.followPriorityClass(o)
	case "/spec/hostNetwork":
		m.expectHostPorts(o)
	}
}
