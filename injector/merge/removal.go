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
	s := existing{at: at, t: ft, value: o.fields[name]}
	base := m.baseOf(s)
	if other := m.wantedByAnother(n); other != "" {
		return m.disagree(s, nil, other, "that template needs it")
	}
	switch {
	case n.gone():
		n.by(m.frag.Template)
		return nil
	case base == nil || n.ours() || m.derived.countsAsUnset(t, name, base, o.fields, at):
		return nil
	}
	write, err := m.conflict(at.onConflict, s, base, nil, "")
	if err != nil || !write {
		return err
	}
	m.take(ft, o, name, at)
	return nil
}
