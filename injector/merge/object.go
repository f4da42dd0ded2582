package merge

import (
	"maps"
	"reflect"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// fields is an object of the pod. It is copied before the first change.
type fields struct {
	now    map[string]any
	copied bool
}

func (f *fields) set(name string, v any) {
	f.own()
	f.now[name] = v
}

func (f *fields) remove(name string) {
	f.own()
	delete(f.now, name)
}

func (f *fields) own() {
	if f.copied {
		return
	}
	f.copied, f.now = true, maps.Clone(f.now)
	if f.now == nil {
		f.now = map[string]any{}
	}
}

// object merges a fragment's object into the pod's object of type t: a struct field by field, a map key by key.
// It removes fields first. It returns the merged object.
func (m *merger) object(t *podschema.Type, now map[string]any, n *fragment.Node, at place) (map[string]any, error) {
	f := &fields{now: now}
	at = at.with(n)
	if t == resourcesType() && !at.path.Is("spec", "resources") {
		at.implied = impliedRequests(now)
	}
	for _, name := range removals(n) {
		m.removeField(t, f, name, at.in(t, name).with(n.Field(name)))
	}
	kept, parts := m.union(t, f, n, at), n.Fields
	if at.path.Is("spec") {
		var err error
		if parts, err = m.route(n, at); err != nil {
			return nil, err
		}
	}
	for _, field := range parts {
		if field.Name == kept || field.Delete {
			continue
		}
		if err := m.field(t, f, field, at.in(t, field.Name).with(field.Node)); err != nil {
			return nil, err
		}
	}
	return f.now, nil
}

// removals returns the fields that an object removes, in order.
func removals(n *fragment.Node) []string {
	names := slices.Clone(n.Unset)
	for _, f := range n.Fields {
		if f.Delete {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// field merges one field of the object of type t.
func (m *merger) field(t *podschema.Type, f *fields, n fragment.Field, at place) error {
	ft, now := t.Child(n.Name), f.now[n.Name]
	switch {
	case n.Join != nil:
		return m.joinField(ft, f, n, at)
	case n.IsBlank():
		return nil
	case n.Replace:
		m.replaceField(t, ft, f, n, at.ordering())
		return nil
	case now == nil:
		return m.addField(t, ft, f, n, at)
	case n.Kind == fragment.List:
		list, ok := now.([]any)
		if !ok {
			return m.malformed(at, "a list", now)
		}
		merged, err := m.list(ft, list, n.Node, at)
		if err == nil && !isSame(merged, list) {
			f.set(n.Name, merged)
		}
		return err
	case ft.IsValue():
		m.value(t, ft, f, n, at)
		return nil
	case ft.IsOneAddition() && m.isWhole(at):
		// A probe of another template is one value.
		m.value(t, ft, f, n, at)
		return nil
	}
	object, ok := now.(map[string]any)
	if !ok {
		return m.malformed(at, "an object", now)
	}
	merged, err := m.object(ft, object, n.Node, at)
	if err == nil && !isSame(merged, object) {
		f.set(n.Name, merged)
	}
	return err
}

func (m *merger) isWhole(at place) bool { return at.writers != nil && at.writers.wrote }

// addField merges a field that the pod lacks.
func (m *merger) addField(t, ft *podschema.Type, f *fields, n fragment.Field, at place) error {
	if !n.Adds() {
		return m.claimAbsences(ft, n, at)
	}
	if ft.IsOneAddition() || at.writers != nil && at.writers.by != "" {
		m.addValue(t, ft, f, n, at)
		return nil
	}
	// The template's values are merged into a new object or list.
	was, had := f.now[n.Name]
	m.write(Write{Path: at.path, Type: ft, Effect: Created, Was: was, Had: had})
	if n.Kind == fragment.List {
		list, err := m.list(ft, []any{}, n.Node, at)
		if err == nil && len(list) > 0 {
			f.set(n.Name, list)
			return nil
		}
		m.result.Writes = m.withoutCreated(at)
		return err
	}
	object, err := m.object(ft, map[string]any{}, n.Node, at)
	if err != nil {
		return err
	}
	if len(object) == 0 && len(n.Fields) > 0 {
		m.result.Writes = m.withoutCreated(at)
		return nil
	}
	f.set(n.Name, object)
	return nil
}

// withoutCreated returns the writes without the last Created write at the place, because the object stayed empty.
func (m *merger) withoutCreated(at place) []Write {
	for i, w := range slices.Backward(m.result.Writes) {
		if w.Path == at.path {
			return slices.Delete(m.result.Writes, i, i+1)
		}
	}
	return m.result.Writes
}

// addValue adds a value that is not merged field by field. Another template may want the field absent, or its
// default.
func (m *merger) addValue(t, ft *podschema.Type, f *fields, n fragment.Field, at place) {
	value := n.JSON()
	if podschema.WouldBeDefault(t, f.now, n.Name, value) {
		m.agree(at, ft, value)
		return
	}
	switch w := at.writers; {
	case w == nil || w.by == "":
		m.writeField(f, at, ft, Added, value)
	case w.deleted:
		m.disagree(at, w.by, nil, value, hintDeletes)
	default:
		m.disagree(at, w.by, w.value, value, "")
	}
}

// writeField writes a value into a field, and records the write.
func (m *merger) writeField(f *fields, at place, t *podschema.Type, effect Effect, value any) {
	name := at.path.Name()
	was, had := f.now[name]
	m.write(Write{Path: at.path, Type: t, Effect: effect, Value: value, Was: was, Had: had})
	f.set(name, value)
}

// value merges a value that is not merged field by field, into a field with a value.
func (m *merger) value(t, ft *podschema.Type, f *fields, n fragment.Field, at place) {
	s := meeting{at: at, t: ft, now: f.now[n.Name], want: n.JSON(), stays: stays(t, at.path.Parent(), at.own)}
	s.unset = func() bool { return m.countsAsUnset(t, n.Name, s.now, f.now, at) }
	if m.settle(s) {
		m.writeField(f, at, ft, Replaced, s.want)
	}
}

// replaceField replaces the pod's whole value of a field by the fragment's.
func (m *merger) replaceField(t, ft *podschema.Type, f *fields, n fragment.Field, at place) {
	before := len(m.result.Writes)
	switch w := at.writers; {
	case f.now[n.Name] != nil:
		m.value(t, ft, f, n, at)
	case w != nil && w.deleted:
		m.disagree(at, w.by, nil, n.JSON(), hintDeletes)
	case w.deletes(n.Node) != "":
		m.disagree(at, w.deletes(n.Node), nil, n.JSON(), hintDeletesIn)
	case n.Adds() || n.Kind == fragment.List:
		m.writeField(f, at, ft, Added, n.JSON())
	}
	for i := range m.result.Writes[before:] {
		m.result.Writes[before+i].whole = true
	}
}

// removeField removes a field of the pod. It reports a conflict if another template needs the field.
func (m *merger) removeField(t *podschema.Type, f *fields, name string, at place) {
	at = at.ordering()
	ft, now := t.Child(name), f.now[name]
	if now == nil {
		m.claimAbsence(at, ft)
		return
	}
	if other := at.needed(); other != "" {
		m.disagree(at, other, now, nil, hintNeeds)
		return
	}
	if m.countsAsUnset(t, name, now, f.now, at) || !m.overrules(at, at.policy, now, nil, "") {
		return
	}
	m.write(Write{Path: at.path, Type: ft, Effect: Removed, Was: now, Had: true})
	f.remove(name)
}

// claimAbsence records that a required template wants a place empty that is empty. A template that writes there
// conflicts with it, in each call.
func (m *merger) claimAbsence(at place, t *podschema.Type) {
	if m.template.Required {
		m.agree(at, t, nil)
	}
}

// claimAbsences calls claimAbsence for all that a value removes in an object or a list that the pod lacks.
func (m *merger) claimAbsences(t *podschema.Type, n fragment.Field, at place) (err error) {
	switch {
	case !m.template.Required:
	case n.Kind == fragment.Object:
		_, err = m.object(t, nil, n.Node, at)
	case n.Kind == fragment.List:
		_, err = m.list(t, nil, n.Node, at)
	}
	return err
}

// needed returns a template that needs the value at the place or below it, "" for none.
func (p place) needed() string {
	switch {
	case p.owner != "":
		return p.wrote()
	case p.writers == nil:
		return ""
	case p.writers.by != "" && !p.writers.deleted:
		return p.writers.by
	}
	return p.writers.inside()
}

// union handles fields of which at most one may be set. If the pod has another one than the fragment, they
// conflict. It returns the fragment's field to skip if the pod's field wins.
func (m *merger) union(t *podschema.Type, f *fields, n *fragment.Node, at place) (skip string) {
	wanted := ""
	for _, name := range t.Unions() {
		if field := n.Field(name); field != nil && field.Adds() {
			wanted = name
		}
	}
	if wanted == "" {
		return ""
	}
	for _, name := range t.Unions() {
		if name == wanted || f.now[name] == nil {
			continue
		}
		if !m.makeRoom(t, f, map[string]any{wanted: n.Field(wanted).JSON()}, at.in(t, wanted).with(n.Field(wanted)), at.in(t, name)) {
			return wanted
		}
	}
	return ""
}

// makeRoom removes a field of a union in favour of another one, to which the template gives value. It reports
// false if the pod's field stays.
func (m *merger) makeRoom(t *podschema.Type, f *fields, value any, here, there place) bool {
	name := there.path.Name()
	stands := map[string]any{name: f.now[name]}
	switch other := there.needed(); {
	case other != "":
		m.disagree(here, other, stands, value, hintUnion)
		return false
	case here.author:
		m.retain(here, KeptByOverridable, stands, value)
		return false
	}
	policy := here.policy
	if m.template.Required && !here.ordered {
		policy = directive.Deny
	}
	if !m.overrules(here, policy, stands, value, hintUnion) {
		return false
	}
	m.write(Write{Path: there.path, Type: t.Child(name), Effect: Removed, Was: f.now[name], Had: true})
	f.remove(name)
	return true
}

// isSame reports whether two maps, or two slices, share their memory.
func isSame[T []any | map[string]any](a, b T) bool {
	return len(a) == len(b) && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
