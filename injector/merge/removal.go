package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// $unset, $patch: delete and $patch: replace say outright that something of the
// pod's goes. They do it, whatever the template's onConflict is; only a
// $onConflict at the node or around it says otherwise. What goes is recorded, so
// that the base pod has it. What another template put in stays: that one would
// put it in again.

func directive(v any, name string) any {
	object, _ := v.(map[string]any)
	return object[name]
}

func isDelete(v any) bool  { return directive(v, patchKey) == patchDelete }
func isReplace(v any) bool { return directive(v, patchKey) == patchReplace }

// isMarker tells the item {$patch: replace} of a list, which speaks of the list.
func isMarker(v any) bool {
	object, _ := v.(map[string]any)
	return isReplace(v) && len(object) == 1
}

// replacesList reports whether a fragment's list takes the place of the pod's.
func replacesList(v any) bool {
	items, _ := v.([]any)
	return slices.ContainsFunc(items, isMarker)
}

func objectOf(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

func unsetNames(v any) ([]string, bool) {
	list, ok := v.([]any)
	names := make([]string, 0, len(list))
	for _, item := range list {
		name, isText := item.(string)
		ok = ok && isText && name != ""
		names = append(names, name)
	}
	return names, ok && len(names) > 0
}

// removals returns the fields that a fragment's object takes away, in order.
func removals(frag map[string]any) []string {
	names, _ := unsetNames(frag[unsetKey])
	for name, v := range frag {
		if isDelete(v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// adds reports whether merging v into nothing puts anything there.
func (s *shapes) adds(t *podschema.Type, v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		names := fieldsOf(v)
		if isDelete(v) {
			return false
		}
		if len(names) == 0 || s.values[t] {
			return v[unsetKey] == nil
		}
		return slices.ContainsFunc(names, func(name string) bool { return s.adds(child(t, name), v[name]) })
	case []any:
		return s.isValue(t) || slices.ContainsFunc(v, func(item any) bool { return !isDelete(item) && !isMarker(item) })
	default:
		return true
	}
}

// overruling returns the place of a directive that overrules the pod, unless a
// $onConflict says what else to do. It does not overrule other templates.
func (p place) overruling() place {
	if !p.explicit {
		p.amongTemplates, p.onConflict, p.explicit = p.onConflict, Overwrite, true
	}
	return p
}

// denying returns the place of a conflict that no policy can settle.
func (p place) denying() place {
	p.onConflict, p.amongTemplates = Deny, ""
	return p
}

// splitDeleted parts the items that are to go from the others.
func splitDeleted(items []listItem) (deleted, others []listItem) {
	for _, it := range items {
		if isDelete(it.raw) {
			deleted = append(deleted, it)
		} else {
			others = append(others, it)
		}
	}
	return deleted, others
}

// claimAbsent records that the template took away what was at path, in this call
// or an earlier one.
func (m *merger) claimAbsent(t *podschema.Type, path string, now bool) {
	if _, claimed := m.claims[path]; !claimed || now {
		m.want(path, claim{template: m.frag.Template, t: t, wrote: now, took: true})
	}
}

// wantedByAnother names a template of this run that wants something at path or
// below it.
func (m *merger) wantedByAnother(path string) string {
	if c, ok := m.claims[path]; ok && c.template != m.frag.Template && c.value != nil {
		return c.template
	}
	return m.extendedBy(path)
}

// mayRemove decides whether a standing value goes.
func (m *merger) mayRemove(s standing) (bool, error) {
	if other := m.wantedByAnother(s.at.keyed); other != "" {
		if s.at.against(other) == Overwrite {
			s.at = s.at.denying()
		}
		return m.conflict(s, nil, other, "that template wants it")
	}
	return m.conflict(s, nil, "", "")
}

// othersOwn reports whether what is at path came from another template, by
// itself or as a part: then there is nothing of the pod's to take away.
func (m *merger) othersOwn(path string) bool {
	if m.made[path] && !m.record.created[path] || m.owners[path] != "" && !m.record.lists(path) && m.originals[path] == nil {
		return true
	}
	for path = parent(path); path != ""; path = parent(path) {
		if m.owners[path] != "" {
			return !m.record.lists(path)
		}
	}
	return false
}

// takenAlready reports whether another template took away or overwrote what the
// pod had at path: what is there now is not the pod's.
func (m *merger) takenAlready(path string) bool {
	c := m.claims[path]
	return c.took && c.template != m.frag.Template || m.takenOver(path)
}

// deleteField takes a field of the pod's away.
func (m *merger) deleteField(t *podschema.Type, o *object, name string, at place) error {
	at = at.overruling()
	ft, current := child(t, name), o.fields[name]
	switch {
	case m.same && m.record.lists(at.keyed):
		// It went before. What is there now, somebody put there since.
		m.claimAbsent(ft, at.keyed, false)
		return nil
	case current == nil || m.countsAsUnset(t, name, current, o.fields, at):
		return nil
	case m.takenAlready(at.keyed) || m.othersOwn(at.keyed) && m.wantedByAnother(at.keyed) == "":
		return nil
	}
	s := standing{at: at, t: ft, value: current}
	if came, gone := m.asItCame(s); !m.isValue(ft) && (gone || came == nil || isEmpty(ft, name, came)) && m.wantedByAnother(at.keyed) == "" {
		return nil // the pod had nothing there but the place that others filled
	}
	write, err := m.mayRemove(s)
	if err != nil || !write {
		return err
	}
	m.noteOriginal(at.keyed, current)
	m.unset(o, name, at)
	m.claimAbsent(ft, at.keyed, true)
	return nil
}

// tookBefore reports whether the template took the item out of the list in an
// earlier call.
func (m *merger) tookBefore(id identity, it listItem, list string) bool {
	return slices.ContainsFunc(m.gone(id, list)[it.key], func(r takenOut) bool { return r.template == m.frag.Template })
}

// gone returns what the pod's status says was taken out of a list, by key, in the
// order of the templates' names.
func (m *merger) gone(id identity, list string) map[string][]takenOut {
	if byKey, ok := m.removedKeys[list]; ok || len(m.removed[list]) == 0 {
		return byKey
	}
	byKey := map[string][]takenOut{}
	for _, r := range m.removed[list] {
		if key, ok := id.key(r.Value); ok {
			byKey[key] = append(byKey[key], r)
		}
	}
	m.removedKeys[list] = byKey
	return byKey
}

// deleteItems takes items of the pod's away, and with each the others of the same
// key, which environments may have. All go at once, since each changes where the
// next one stands.
func (m *merger) deleteItems(l *list, deleted []listItem, list place) error {
	going := map[string]bool{}  // by key
	before := map[string]bool{} // and of them those that the template had taken out before
	for _, it := range deleted {
		goes, err := m.deletes(l, it, list)
		if err != nil {
			return err
		}
		if goes {
			going[it.key], before[it.key] = true, m.tookBefore(l.id, it, list.keyed)
		}
	}
	if len(going) == 0 {
		return nil
	}
	var out []int
	for i, item := range l.items {
		if key, ok := l.id.key(item); ok && going[key] {
			out = append(out, i)
		}
	}
	m.takeOut(l, list, out, before)
	for key := range going {
		path := join(list.keyed, key)
		delete(m.names, path)
		m.claimAbsent(l.id.elem, path, true)
	}
	return nil
}

// takeOut removes the items of the given indexes, which ascend, recording where
// each was among the items that are not Pillion's. Those that are Pillion's, and
// those of the keys in before, are not recorded.
func (m *merger) takeOut(l *list, list place, out []int, before map[string]bool) {
	if len(out) == 0 {
		return
	}
	earlier := m.record.removed[list.keyed]
	next, own := 0, 0
	for i, item := range l.items[:out[len(out)-1]+1] {
		key, ok := l.id.key(item)
		listed := ok && m.owners[join(list.keyed, key)] != ""
		if i == out[next] {
			next++
			delete(l.objects, key)
			if !listed && !before[key] {
				m.noteRemoved(list.keyed, Removed{At: behind(earlier, own), Value: item})
			}
		}
		if !listed {
			own++
		}
	}
	for _, i := range slices.Backward(out) {
		m.emit("remove", list.item("", i).pointer, nil)
	}
	l.removeAll(out)
}

// behind returns where in a list is what stands at index at when the removed
// items are not there.
func behind(removed []Removed, at int) int {
	for _, r := range removed {
		if r.At <= at {
			at++
		}
	}
	return at
}

// deletes decides whether an item of the pod's goes.
func (m *merger) deletes(l *list, it listItem, list place) (bool, error) {
	i, have := l.index[it.key]
	at := list.item(it.key, i).with(it.raw).overruling()
	before := m.tookBefore(l.id, it, list.keyed)
	switch {
	case before && (m.same || !have):
		m.claimAbsent(l.id.elem, at.keyed, false)
		return false, nil
	case !have || m.takenAlready(at.keyed) || m.othersOwn(at.keyed) && m.wantedByAnother(at.keyed) == "":
		return false, nil
	}
	return m.mayRemove(standing{at: at, t: l.id.elem, value: l.items[i]})
}

// replaceField puts the fragment's value in the place of all that the pod has
// in a field.
func (m *merger) replaceField(t, ft *podschema.Type, o *object, name string, v any, at place) error {
	at = at.overruling()
	if o.fields[name] == nil {
		return m.addField(t, ft, o, name, v, at, true)
	}
	if other := m.extendedBy(at.keyed); other != "" && !m.keepsUp(at.keyed) {
		_, err := m.conflict(standing{at: at.denying(), t: ft, value: o.fields[name]}, m.clean(ft, v), other, "that template would lose what it put there")
		return err
	}
	return m.mergeValue(t, ft, o, name, v, at)
}
