package merge

import (
	"github.com/pillion-dev/pillion/templates/podschema"
)

// standing is a value that the pod has where a template wants one.
type standing struct {
	at    place
	t     *podschema.Type
	value any
	// stays means that the pod's own value wins without a conflict.
	stays bool
	// unset tells whether a value there counts as absent, because it is the API's
	// default or was set by the API server's own admission. Nil: none does.
	unset func(value any) bool
}

func (s standing) isUnset() bool { return s.unset != nil && s.unset(s.value) }

// claim is the value that a template of this run wants somewhere.
type claim struct {
	template string
	t        *podschema.Type
	value    any
	wrote    bool // in this run, so that the pod has it now
	authors  bool // the pod's author had written the same value
	took     bool // it wants nothing there, and took away what was
}

// settle decides whether the template's value v replaces the standing one. It
// is the table of the design's section 7 for values that are there.
func (m *merger) settle(s standing, v any) (write bool, err error) {
	path := s.at.keyed
	earlier, claimed := m.claims[path]
	own := m.record.lists(path)
	m.warnAgain(s, v)
	switch {
	case own && m.same && !(claimed && earlier.wrote):
		// What others made of it since is kept.
		m.claim(s, v, false)
		return m.outdated(s.t, s.at, s.value, v, false), nil
	case claimed && !earlier.authors:
		return m.settleWithTemplate(s, v, earlier)
	case !own && m.owners[path] != "" && m.originals[path] == nil && s.unset != nil && s.unset(v):
		// Another template's where the pod had nothing, which is what this one
		// wants to say.
		m.claim(s, v, false)
		return false, nil
	case own || m.owners[path] != "" && m.originals[path] == nil:
		// Ours under another hash, or another template's that has not wanted it
		// in this run.
		m.list(path)
		m.sign(s.t, path, v)
		m.claim(s, v, false)
		return !equal(s.t, s.value, v), nil
	case m.owners[path] != "":
		// Another template overwrote it: that decides nothing for this one.
		s.value = m.originals[path]
		return m.settleAfresh(s, v)
	default:
		return m.settleAfresh(s, v)
	}
}

// settleAfresh decides about a value that is the pod's own.
func (m *merger) settleAfresh(s standing, v any) (write bool, err error) {
	same := equal(s.t, s.value, v)
	if _, isObject := s.value.(map[string]any); isObject && !same && (!m.isValue(s.t) || s.t == m.volumes.Elem()) {
		// What other templates put into it does not make it another value.
		came, gone := m.asItCame(s)
		same = !gone && equal(s.t, came, v)
	}
	switch {
	case same:
		m.claim(s, v, !s.isUnset())
		return false, nil
	case s.isUnset():
		return true, nil
	default:
		return m.settleWithAuthor(s, v)
	}
}

// asItCame returns the standing value without what any template put into it;
// gone means that then there is nothing.
func (m *merger) asItCame(s standing) (came any, gone bool) {
	u := m.undo.find(s.at.keyed)
	if u == nil {
		return s.value, false
	}
	return u.value(s.value, s.t)
}

func (m *merger) settleWithTemplate(s standing, v any, earlier claim) (bool, error) {
	if !equal(s.t, earlier.value, v) {
		s.value = earlier.value
		return m.conflict(s, v, earlier.template, "")
	}
	if m.owners[s.at.keyed] != "" {
		// Both have it, so that it stays ours when one of them goes.
		m.list(s.at.keyed)
		m.sign(s.t, s.at.keyed, v)
	}
	return false, nil
}

func (m *merger) settleWithAuthor(s standing, v any) (bool, error) {
	switch {
	case s.at.owner == m.frag.Template:
		return true, nil
	case s.at.owner != "":
		return m.conflict(s, v, s.at.owner, "")
	case s.at.author:
		return false, nil
	case s.stays && !(s.at.explicit && s.at.onConflict == Overwrite):
		m.warnOfPods(s.at, podsStays)
		return false, nil
	default:
		return m.conflict(s, v, "", "")
	}
}

// conflict does what onConflict says.
func (m *merger) conflict(s standing, v any, other, hint string) (write bool, err error) {
	switch s.at.against(other) {
	case Overwrite:
		// A directive at the node says it outright; a setting of the whole template
		// may reach what its author did not think of.
		if other == "" && !s.at.explicit && m.originals[s.at.keyed] == nil {
			m.warn(s.at, replacesPods)
		}
		return true, nil
	case KeepPod:
		if other != "" {
			m.warn(s.at, "the value of template "+other+" stays")
		} else {
			m.warnOfPods(s.at, podsStays)
		}
		return false, nil
	default:
		stands := show(s.value)
		if other != "" {
			stands = shownWish(s.value)
		}
		return false, &ConflictError{
			Template: m.frag.Template, Other: other, Path: readable(s.at.keyed),
			PodValue: stands, TemplateValue: shownWish(v), Hint: hint,
		}
	}
}

// warnAgain says of a value that the template overwrote in an earlier call what
// was said then.
func (m *merger) warnAgain(s standing, v any) {
	s.value = m.record.overwrote[s.at.keyed]
	if s.value == nil || s.at.explicit || s.at.onConflict != Overwrite || s.at.owner != "" || s.at.author || s.stays {
		return
	}
	if !s.isUnset() && !equal(s.t, s.value, v) {
		m.warn(s.at, replacesPods)
	}
}

func (m *merger) claim(s standing, v any, authors bool) {
	m.want(s.at.keyed, claim{template: m.frag.Template, t: s.t, value: v, authors: authors})
}

// want notes a claim on path.
func (m *merger) want(path string, c claim) {
	m.claims[path] = c
	for path != "" && !m.around[path] {
		m.around[path] = true
		above := parent(path)
		m.below[above] = append(m.below[above], path)
		path = above
	}
}

// mergeUnion treats fields of which at most one may be set: if the pod has
// another one than the fragment, they conflict. It returns the fragment's field
// that shall be left out, if the pod's stays.
func (m *merger) mergeUnion(t *podschema.Type, o *object, frag map[string]any, at place) (skip string, err error) {
	wanted, standing := "", ""
	for _, name := range m.unions[t] {
		if ft := child(t, name); m.adds(ft, frag[name]) && !m.blank(ft, frag[name]) {
			wanted = name
		} else if o.fields[name] != nil {
			standing = name
		}
	}
	if wanted == "" {
		return "", nil
	}
	here := at.field(wanted).keyed
	m.warnOfSwapAgain(t, wanted, frag[wanted], at)
	defer func() { m.chosen[here] = m.chosen[here] || err == nil && skip == "" }()
	if original, name := m.exchanged(t, wanted, at); original != nil && !m.stakes[here] && !m.chosen[here] {
		return m.choose(t, wanted, map[string]any{name: original}, frag[wanted], at)
	}
	if standing == "" || o.fields[wanted] != nil {
		return "", nil
	}
	return m.swap(t, o, wanted, standing, frag[wanted], at)
}

// warnOfSwapAgain is warnAgain for a field of a union that the template put in the
// place of another.
func (m *merger) warnOfSwapAgain(t *podschema.Type, wanted string, v any, at place) {
	here := at.field(wanted).with(objectOf(v))
	for _, name := range m.unions[t] {
		if name != wanted && m.record.overwrote[at.field(name).keyed] != nil && !here.explicit && here.onConflict == Overwrite && here.owner == "" {
			m.warn(here, replacesPods)
		}
	}
}

// exchanged returns what the pod had before another template put the wanted
// field in its place.
func (m *merger) exchanged(t *podschema.Type, wanted string, at place) (original any, name string) {
	for _, name := range m.unions[t] {
		path := at.field(name).keyed
		if v := m.originals[path]; name != wanted && v != nil && !m.record.lists(path) {
			return v, name
		}
	}
	return nil, ""
}

// swap replaces one field of a union by another, or returns the name of the one
// that is not to be set.
func (m *merger) swap(t *podschema.Type, o *object, wanted, present string, v any, at place) (skip string, err error) {
	if m.same && m.stakes[at.field(wanted).keyed] || at.author && at.owner == "" {
		return wanted, nil
	}
	skip, err = m.choose(t, wanted, map[string]any{present: o.fields[present]}, v, at)
	if err != nil || skip != "" {
		return skip, err
	}
	there := standing{at: at.field(present), t: child(t, present), value: o.fields[present]}
	if came, gone := m.asItCame(there); !gone && came != nil {
		m.noteOriginal(there.at.keyed, came)
	}
	m.unset(o, present, there.at)
	m.claimAbsent(there.t, there.at.keyed, true)
	return "", nil
}

// choose decides between what stands in a union and the field that the template
// wants; it returns the field's name if it is not to be set.
func (m *merger) choose(t *podschema.Type, wanted string, stands map[string]any, v any, at place) (skip string, err error) {
	here := at.field(wanted)
	if object, ok := v.(map[string]any); ok {
		here = here.with(object)
	}
	other := at.owner
	for present := range stands {
		if other == "" {
			other = m.wantedByAnother(at.field(present).keyed)
		}
	}
	value := map[string]any{wanted: m.clean(child(t, wanted), v)}
	write, err := m.conflict(standing{at: here, value: stands}, value, other, "only one of them can be set")
	if err != nil || !write {
		return wanted, err
	}
	return "", nil
}
