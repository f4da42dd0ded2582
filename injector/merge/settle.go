package merge

import (
	"github.com/pillion-dev/pillion/templates/podschema"
)

// existing is a value in the wanted pod where a template wants one.
type existing struct {
	at    *place
	t     *podschema.Type
	value any // as it is wanted so far; nil for none
	// stays means that the pod's own value wins without a conflict.
	stays bool
	// unset reports whether a value there counts as absent, because it is the
	// API's default or was set by the API server's own admission. Nil: none does.
	unset func(value any) bool
}

// baseOf returns what the base pod has there, nil for nothing.
func (j judge) baseOf(s existing) any {
	n := s.at.find()
	switch {
	case n == nil:
		return s.value
	case n.Do != Nothing && n.Do != Expect:
		return n.was
	case n.Edits(): // other templates put something into it
		_, v := j.inBase(s.at)
		return v
	}
	return s.value
}

// inBase returns what the base pod has at a place, nil for nothing, and its type.
func (j judge) inBase(at *place) (*podschema.Type, any) {
	if at.parent == nil {
		return podschema.Pod(), j.base
	}
	t, v := j.inBase(at.parent)
	switch v := v.(type) {
	case map[string]any:
		return t.Child(at.segment), v[at.segment]
	case []any:
		if id, keyed := t.Identity(); keyed {
			if i, ok := at.parent.note().position(id, v)[at.segment]; ok {
				return id.Elem, v[i]
			}
		}
	}
	return nil, nil
}

// position returns the item that each key means in the base pod's list at the
// place.
func (c *Change) position(id podschema.Identity, items []any) map[string]int {
	if c.positions == nil {
		c.positions = make(map[string]int, len(items))
		for i, item := range items {
			if key, ok := id.Key(item); ok {
				c.positions[key] = i
			}
		}
	}
	return c.positions
}

// judge decides for one fragment about places where a value stands.
type judge struct {
	base     map[string]any // the base pod
	frag     *Fragment
	warnings *warnings
}

// settle decides whether the template's value v has to be put there. First the
// template meets the base pod. If it leaves the pod's value alone, it wants
// nothing there. Otherwise it has to agree with the other templates that do.
func (j judge) settle(s existing, v any) (write bool, err error) {
	if s.at.owner != "" {
		return false, j.settleInside(s, v)
	}
	n := s.at.find()
	if n.gone() {
		return false, j.agree(s, v, n)
	}
	write, wants, err := j.settleWithPod(s, v)
	if err != nil || !wants {
		return false, err
	}
	if n.asked() {
		return false, j.agree(s, v, n)
	}
	if write {
		other := j.wantedInside(n)
		if u := n.unmet(s.t, v); other == "" && u != nil {
			other = u.Templates[0]
		}
		if other != "" {
			s.value = j.baseOf(s)
			return false, j.disagree(s, v, other, "that template extends it, and would lose its additions")
		}
	}
	s.at.note().claim(j.frag.Template, s.t, v, false)
	return write, nil
}

// settleWithPod decides by the base pod and this template alone.
func (j judge) settleWithPod(s existing, v any) (write, wants bool, err error) {
	base := j.baseOf(s)
	switch {
	case base == nil:
		return true, true, nil
	case podschema.Equal(s.t, withoutToken(s.t, base), v):
		return false, true, nil
	case s.unset != nil && s.unset(base):
		return true, true, nil
	case s.at.author:
		j.warnings.keep(s.at, Kept{Template: j.frag.Template, Why: KeptByOverridable, Has: base, Wants: v}, true)
		return false, false, nil
	}
	policy := s.at.onConflict
	if s.stays && !s.at.explicit && !j.frag.Required {
		policy = keptByRule
	}
	write, err = j.conflict(policy, s, base, v, "")
	if err == nil && !write {
		s.at.note().kept = j.frag.Template
	}
	return write, write, err
}

// settleInside decides about a place inside an item that a template put there:
// who put it there and this template have to agree.
func (j judge) settleInside(s existing, v any) error {
	if podschema.Equal(s.t, s.value, v) {
		s.at.note().claim(j.frag.Template, s.t, v, false)
		return nil
	}
	return j.disagree(s, v, s.at.owner, "")
}

// agree adds the template to those that want something there, if all want the
// same.
func (j judge) agree(s existing, v any, n *Change) error {
	if n.gone() {
		s.value = nil
		return j.disagree(s, v, n.Templates[0], "that template deletes it")
	}
	if !podschema.Equal(s.t, n.desired.Value, v) {
		s.value = n.desired.Value
		return j.disagree(s, v, n.Templates[0], "")
	}
	n.by(j.frag.Template)
	return nil
}

// conflict does what a policy says where the pod has another value. V is nil
// where the template wants nothing there.
func (j judge) conflict(policy string, s existing, base, v any, hint string) (write bool, err error) {
	switch policy {
	case Overwrite:
		// A directive at the node says it outright; a setting of the whole template
		// may reach what its author did not think of.
		if !s.at.explicit {
			j.warnings.add(j.frag.Template, s.at, replacesPods)
		}
		return true, nil
	case KeepPod, keptByRule:
		why := KeptByTemplate
		switch {
		case policy == keptByRule:
			why = KeptByRule
		case s.at.explicit:
			why = KeptByNode
		}
		j.warnings.keep(s.at, Kept{Template: j.frag.Template, Why: why, Has: base, Wants: v}, false)
		return false, nil
	default:
		return false, j.frag.conflict(s.at, "", podschema.Show(base), v, hint)
	}
}

// disagree is the conflict of two templates. No policy settles it: policies are
// about the pod.
func (j judge) disagree(s existing, v any, other, hint string) error {
	return j.frag.conflict(s.at, other, shownDesired(s.value), v, hint)
}

// wantedInside names another template that put or took something inside n.
func (j judge) wantedInside(n *Change) string {
	if n == nil {
		return ""
	}
	for _, segment := range n.Segments() {
		c := n.In[segment]
		if other := c.joinedBy(j.frag.Template); other != "" {
			return other
		}
		if c.Do != Nothing && c.asked() && !c.only(j.frag.Template) {
			return c.Templates[0]
		}
		if other := j.wantedInside(c); other != "" {
			return other
		}
	}
	return ""
}

// wantedThere names a template that wants something at n or inside it. It works
// on nil.
func (j judge) wantedThere(n *Change) string {
	if n.asked() && !n.gone() {
		return n.Templates[0]
	}
	if n != nil && len(n.joints) > 0 {
		return n.joints[0].template
	}
	return j.wantedInside(n)
}

// wantedByAnother names a template that wants something at n or inside it.
func (j judge) wantedByAnother(n *Change) string {
	switch {
	case n == nil:
		return ""
	case n.kept != "" && n.kept != j.frag.Template:
		return n.kept
	case n.joinedBy(j.frag.Template) != "":
		return n.joinedBy(j.frag.Template)
	case n.asked() && !n.gone() && !n.only(j.frag.Template):
		return n.Templates[0]
	}
	return j.wantedInside(n)
}
