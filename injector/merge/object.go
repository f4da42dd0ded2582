package merge

import (
	"maps"
	"reflect"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// fields are an object of the pod, which is copied when it is first changed.
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

// object merges a fragment's object into the pod's, of type t: a struct field by field, a map key by
// key. What goes, goes first. It returns the merged object.
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

// removals returns the fields that an object takes away, in order.
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
		// A probe that another template put there is one value.
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

// addField puts a value where the pod has none.
func (m *merger) addField(t, ft *podschema.Type, f *fields, n fragment.Field, at place) error {
	if !n.Adds() {
		return m.claimAbsences(ft, n, at)
	}
	if ft.IsOneAddition() || at.writers != nil && at.writers.by != "" {
		m.addValue(t, ft, f, n, at)
		return nil
	}
	// The object or list is made, and the template's values are merged into it.
	was, had := f.now[n.Name]
	m.write(Write{Path: at.path, Type: ft, Effect: Made, Was: was, Had: had})
	if n.Kind == fragment.List {
		list, err := m.list(ft, []any{}, n.Node, at)
		if err == nil && len(list) > 0 {
			f.set(n.Name, list)
			return nil
		}
		m.result.Writes = m.withoutMade(at)
		return err
	}
	object, err := m.object(ft, map[string]any{}, n.Node, at)
	if err != nil {
		return err
	}
	if len(object) == 0 && len(n.Fields) > 0 {
		m.result.Writes = m.withoutMade(at)
		return nil
	}
	f.set(n.Name, object)
	return nil
}

// withoutMade returns the writes without the last one that made the place: nothing was put into it.
func (m *merger) withoutMade(at place) []Write {
	for i, w := range slices.Backward(m.result.Writes) {
		if w.Path == at.path {
			return slices.Delete(m.result.Writes, i, i+1)
		}
	}
	return m.result.Writes
}

// addValue puts a value that is one whole where the pod has none. Another template may want that nothing
// is there, or the default that nothing stands for.
func (m *merger) addValue(t, ft *podschema.Type, f *fields, n fragment.Field, at place) {
	value := n.JSON()
	if podschema.WouldBeDefault(t, f.now, n.Name, value) {
		m.agree(at, ft, value)
		return
	}
	switch w := at.writers; {
	case w == nil || w.by == "":
		m.put(f, n.Name, at, ft, Added, value)
	case w.gone:
		m.disagree(at, w.by, nil, value, "that template deletes it")
	default:
		m.disagree(at, w.by, w.value, value, "")
	}
}

// put writes a value into a field, and does what that makes necessary in others.
func (m *merger) put(f *fields, name string, at place, t *podschema.Type, effect Effect, value any) {
	was, had := f.now[name]
	m.write(Write{Path: at.path, Type: t, Effect: effect, Value: value, Was: was, Had: had})
	f.set(name, value)
}

// value merges a value that is one whole, and that the pod has, too.
func (m *merger) value(t, ft *podschema.Type, f *fields, n fragment.Field, at place) {
	s := meeting{at: at, t: ft, now: f.now[n.Name], want: n.JSON(), stays: stays(t, at.path.Parent(), at.own)}
	s.unset = func() bool { return m.countsAsUnset(t, n.Name, s.now, f.now, at) }
	if m.settle(s) {
		m.put(f, n.Name, at, ft, Replaced, s.want)
	}
}

// replaceField puts the fragment's value in the place of all that the pod has in a field.
func (m *merger) replaceField(t, ft *podschema.Type, f *fields, n fragment.Field, at place) {
	before := len(m.result.Writes)
	switch w := at.writers; {
	case f.now[n.Name] != nil:
		m.value(t, ft, f, n, at)
	case w != nil && w.gone:
		m.disagree(at, w.by, nil, n.JSON(), "that template deletes it")
	case w.deletes(n.Node) != "":
		m.disagree(at, w.deletes(n.Node), nil, n.JSON(), "that template deletes a part of it")
	case n.Adds() || n.Kind == fragment.List:
		m.put(f, n.Name, at, ft, Added, n.JSON())
	}
	for i := range m.result.Writes[before:] {
		m.result.Writes[before+i].whole = true
	}
}

// removeField takes a field of the pod's away. What another template put in stays.
func (m *merger) removeField(t *podschema.Type, f *fields, name string, at place) {
	at = at.ordering()
	ft, now := t.Child(name), f.now[name]
	if now == nil {
		m.claimAbsence(at, ft)
		return
	}
	if other := at.needed(); other != "" {
		m.disagree(at, other, now, nil, "that template needs it")
		return
	}
	if m.countsAsUnset(t, name, now, f.now, at) || !m.overrules(at, at.policy, now, nil, "") {
		return
	}
	m.write(Write{Path: at.path, Type: ft, Effect: Removed, Was: now, Had: true})
	f.remove(name)
}

// claimAbsence notes that a required template wants nothing at a place where nothing stands. Another one
// that puts something there contradicts it, on each call.
func (m *merger) claimAbsence(at place, t *podschema.Type) {
	if m.template.Required {
		m.agree(at, t, nil)
	}
}

// claimAbsences is claimAbsence for what a value takes away in an object or a list that is not there.
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

// needed names a template that wants what stands at the place, or something in it.
func (p place) needed() string {
	switch {
	case p.owner != "":
		return p.owner
	case p.writers == nil:
		return ""
	case p.writers.by != "" && !p.writers.gone:
		return p.writers.by
	}
	return p.writers.inside()
}

// union treats fields of which at most one may be set. If the pod has another one than the fragment,
// they conflict. It returns the fragment's field that is not to be set, if the pod's stays.
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
		if !m.makeRoom(t, f, name, map[string]any{wanted: n.Field(wanted).JSON()}, at.in(t, wanted).with(n.Field(wanted)), at.in(t, name)) {
			return wanted
		}
	}
	return ""
}

// makeRoom takes the field name of a union away, where the template wants value at another one. It
// reports false if the pod's field stays.
func (m *merger) makeRoom(t *podschema.Type, f *fields, name string, value any, here, there place) bool {
	const onlyOne = "only one of them can be set"
	stands := map[string]any{name: f.now[name]}
	switch other := there.needed(); {
	case other != "":
		m.disagree(here, other, stands, value, onlyOne)
		return false
	case here.author:
		m.keep(here, KeptByOverridable, stands, value)
		return false
	}
	policy := here.policy
	if m.template.Required && !here.ordered {
		policy = directive.Deny
	}
	if !m.overrules(here, policy, stands, value, onlyOne) {
		return false
	}
	m.write(Write{Path: there.path, Type: t.Child(name), Effect: Removed, Was: f.now[name], Had: true})
	f.remove(name)
	return true
}

// isSame reports whether two lists, or two objects, are one.
func isSame[T []any | map[string]any](a, b T) bool {
	return len(a) == len(b) && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
