package merge

import (
	"github.com/pillion-dev/pillion/templates/podschema"
)

// mergeObject merges a fragment's object into the pod's, of type t: a struct
// field by field, a map key by key.
func (m *merger) mergeObject(t *podschema.Type, o *object, frag map[string]any, at place) error {
	at = at.with(frag)
	kept, err := m.mergeUnion(t, o, frag, at)
	if err != nil {
		return err
	}
	for _, name := range fieldsOf(frag) {
		if name == kept {
			continue
		}
		if err := m.mergeField(t, o, name, frag[name], at.field(name)); err != nil {
			return err
		}
	}
	if t == m.resources {
		m.expectRequests(o.fields, at)
	}
	return nil
}

func (m *merger) mergeField(t *podschema.Type, o *object, name string, v any, at place) error {
	ft := child(t, name)
	if object, ok := v.(map[string]any); ok {
		at = at.with(object)
	}
	if m.blank(ft, v) {
		return nil
	}
	if ft != nil && ft.Kind() == podschema.List && !m.isValue(ft) {
		return m.mergeList(o, name, ft, v.([]any), at)
	}
	if o.fields[name] == nil {
		return m.addField(t, ft, o, name, v, at)
	}
	if m.isValue(ft) || m.added[ft] && m.owners[at.keyed] != "" {
		return m.mergeValue(t, ft, o, name, v, at)
	}
	c, ok := o.object(name)
	if !ok {
		return m.podError(at, "an object", o.fields[name])
	}
	return m.mergeObject(ft, c, v.(map[string]any), at)
}

// addField puts a value where the pod has none, in one edit.
func (m *merger) addField(t, ft *podschema.Type, o *object, name string, v any, at place) error {
	value := m.clean(ft, v)
	if earlier, claimed := m.claims[at.keyed]; claimed {
		// It wants the default that an absent value means.
		if write, err := m.settleWithTemplate(standing{at: at, t: ft}, value, earlier); err != nil || !write {
			return err
		}
	} else if wouldBeDefault(t, o.fields, name, value) {
		m.claims[at.keyed] = claim{template: m.frag.Template, t: ft, value: value}
		return nil
	}
	m.noteNull(at.keyed, o, name)
	m.set(o, name, at, value)
	m.note(ft, at.keyed, value)
	if ft == m.resources {
		m.expectRequests(value.(map[string]any), at)
	}
	m.follow(o, at)
	return nil
}

// mergeValue treats a value that is one whole and that the pod has, too.
func (m *merger) mergeValue(t, ft *podschema.Type, o *object, name string, v any, at place) error {
	value := m.clean(ft, v)
	write, err := m.settle(standing{
		at: at, t: ft, value: o.fields[name], stays: m.staysIn(t, at),
		unset: func(v any) bool { return m.countsAsUnset(t, name, v, o.fields, at) },
	}, value)
	if err != nil || !write {
		return err
	}
	m.noteOriginal(at.keyed, o.fields[name])
	m.set(o, name, at, value)
	m.claims[at.keyed] = claim{template: m.frag.Template, t: ft, value: value, wrote: true}
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
