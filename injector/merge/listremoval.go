package merge

import (
	"slices"
)

// deleteItems takes items of the pod's away, and with each the others of the same
// key, which environments may have.
func (m *listMerger) deleteItems(deleted []listItem) error {
	going := map[string]bool{}
	for _, it := range deleted {
		goes, err := m.deletes(it)
		if err != nil {
			return err
		}
		if goes {
			going[it.key] = true
		}
	}
	if len(going) == 0 {
		return nil
	}
	m.removeItems(going)
	return nil
}

// deletes decides whether an item of the pod's goes.
func (m *listMerger) deletes(it listItem) (bool, error) {
	i, have := m.list.find(it.key)
	at := m.at.field(it.key).with(it.node).overruling()
	n := at.find()
	s := existing{at: at, t: m.list.id.Elem}
	if have {
		s.value = m.list.items[i]
	}
	if other := m.wantedByAnother(n); other != "" {
		return false, m.disagree(s, nil, other, "that template needs it")
	}
	switch {
	case n.gone():
		n.by(m.frag.Template)
		return false, nil
	case !have || n.ours():
		return false, nil
	}
	return m.conflict(at.onConflict, s, s.value, nil, "")
}

// removeItems takes all items of the keys out of a list.
func (m *listMerger) removeItems(keys map[string]bool) {
	for key := range keys {
		n := m.at.field(key).note()
		n.put(Remove, m.list.at(key))
		n.claim(m.frag.Template, m.list.id.Elem, nil, true)
		if m.list.id.Elem.IsContainer() {
			delete(m.names, key)
		}
	}
	m.list.removeAll(keys)
}

// dropDefaultTolerations takes out the tolerations of DefaultTolerationSeconds
// that the plugin would not have added beside the template's.
func (m *listMerger) dropDefaultTolerations(items []listItem) {
	covered := map[string]bool{}
	for _, key := range defaultTolerations {
		covered[key] = slices.ContainsFunc(items, func(it listItem) bool {
			_, have := m.list.find(it.key)
			return !have && covers(objectOf(it.value), key)
		})
	}
	going := map[string]bool{}
	for _, item := range m.list.items {
		if !isDefaultToleration(item) || !covered[objectOf(item)["key"].(string)] {
			continue
		}
		if key, ok := m.list.id.Key(item); ok && !m.at.field(key).find().ours() {
			going[key] = true
		}
	}
	if len(going) > 0 {
		m.removeItems(going)
	}
}
