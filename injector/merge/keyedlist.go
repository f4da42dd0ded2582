package merge

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// list merges items into a keyed list of the pod: it deletes items, merges items of equal keys, and inserts the
// others at their positions.
func (m *merger) list(t *podschema.Type, now []any, n *fragment.Node, at place) ([]any, error) {
	id, _ := t.Identity()
	l := &list{merger: m, t: t, id: id, at: at, now: now, keys: make(map[string]bool, len(n.Items))}
	for _, it := range n.Items {
		l.keys[it.Key] = true
	}
	l.removeItems(n.Items)
	if at.path.Is("spec", "tolerations") {
		l.removeDefaultTolerations(n.Items)
	}
	l.index = podschema.IndexIn(id, l.now, l.keys)
	joins := map[string][]directive.Join{}
	for _, it := range n.Items {
		if it.Join != nil && it.Join.Text != "" {
			joins[it.Key] = append(joins[it.Key], *it.Join)
		}
	}
	var absent []fragment.Item
	for _, it := range n.Items {
		if err := m.ctx.Err(); err != nil {
			return nil, err
		}
		if it.Absent() {
			continue
		}
		i, there := l.index[it.Key]
		if texts := joins[it.Key]; it.Join != nil {
			delete(joins, it.Key) // the first item of the key joins the texts of all
			if len(texts) == 0 {
				continue
			}
			if !there {
				absent = append(absent, l.joined(it, texts))
				continue
			}
			if err := l.join(i, texts, at.item(it.Key)); err != nil {
				return nil, err
			}
			continue
		}
		if !there {
			absent = append(absent, it)
			continue
		}
		moves, err := l.merge(i, it, at.item(it.Key).with(it.Node))
		if err != nil {
			return nil, err
		}
		if moves {
			absent = append(absent, l.detach(it))
		}
	}
	l.insert(absent)
	return l.now, nil
}

// list is one list of the pod during the merge of a fragment's items.
type list struct {
	*merger
	t  *podschema.Type
	id podschema.Identity
	at place
	// now is copied when it is first changed.
	now    []any
	copied bool
	// keys are the keys of the fragment's items. index has the last item of now with each key.
	keys  map[string]bool
	index map[string]int
	// moved has the items that move to another position.
	moved map[string]RemovedItem
	// fresh has the new variables to which texts are joined, by their keys.
	fresh map[string]freshText
}

func (l *list) set(i int, v any) {
	if !l.copied {
		l.now, l.copied = slices.Clone(l.now), true
	}
	l.now[i] = v
}

// removeItems removes items of the pod, and all other items of their keys, since environments may repeat a key.
func (l *list) removeItems(items []fragment.Item) {
	going := map[string]bool{}
	for _, it := range items {
		if it.Delete {
			going[it.Key] = true
		}
	}
	if len(going) == 0 {
		return
	}
	index := podschema.IndexIn(l.id, l.now, going)
	for _, key := range sorted(going) {
		at := l.at.item(key)
		i, there := index[key]
		if !there {
			l.claimAbsence(at, l.id.Elem)
			delete(going, key)
			continue
		}
		if n := (&fragment.Node{Items: items}).Item(key); n != nil {
			at = at.with(n)
		}
		at = at.ordering()
		other := at.needed()
		if other != "" {
			l.disagree(at, other, l.now[i], nil, hintNeeds)
		}
		if other != "" || !l.overrules(at, at.policy, l.now[i], nil, "") {
			delete(going, key)
		}
	}
	l.remove(going)
}

// remove removes all items of the keys from the list.
func (l *list) remove(going map[string]bool) {
	if len(going) == 0 {
		return
	}
	gone := map[string][]RemovedItem{}
	base := podschema.ListOf(podschema.LookUp(l.base, l.at.path.Segments()))
	for i, key := range podschema.KeysIn(l.id, base, going) {
		gone[key] = append(gone[key], RemovedItem{i, base[i]})
	}
	kept := make([]any, 0, len(l.now))
	start, found := 0, map[string]any{}
	for i, key := range podschema.KeysIn(l.id, l.now, going) {
		kept = append(kept, l.now[start:i]...)
		start, found[key] = i+1, l.now[i]
	}
	l.now, l.copied = append(kept, l.now[start:]...), true
	for _, key := range sorted(found) {
		l.write(Write{Path: l.at.path.Key(key), Type: l.id.Elem, Effect: Removed, Was: found[key], RemovedItems: gone[key]})
		if l.id.Elem.IsContainer() {
			delete(l.names, podschema.ObjectOf(found[key])["name"].(string))
		}
	}
}

// merge merges an item into the list's item of its key. It reports whether the merged item moves to its
// position.
func (l *list) merge(i int, it fragment.Item, at place) (moves bool, err error) {
	switch {
	case it.Replace:
		l.whole(i, it, at.ordering())
		return false, nil
	case l.id.Set():
		l.agree(at, l.id.Elem, it.JSON())
		return false, nil
	case l.id.Elem.IsContainer():
		return l.container(i, it, at)
	case l.id.Elem.IsValue() || at.wrote() != "":
		l.whole(i, it, at)
		return false, nil
	}
	return false, l.parts(i, it, at)
}

// parts merges an item into the list's item of the same key, field by field.
func (l *list) parts(i int, it fragment.Item, at place) error {
	now, ok := l.now[i].(map[string]any)
	if !ok {
		return l.malformed(at, "an object", l.now[i])
	}
	merged, err := l.object(l.id.Elem, now, it.Node, at)
	if err == nil && !isSame(merged, now) {
		l.set(i, merged)
	}
	return err
}

// whole merges an item that is compared and replaced as one value.
func (l *list) whole(i int, it fragment.Item, at place) {
	s := meeting{at: at, t: l.id.Elem, now: l.now[i], want: it.JSON(), stays: stays(l.t, l.at.path, l.at.own)}
	if l.settle(s) {
		l.replace(i, at, s.want)
	}
}

func (l *list) replace(i int, at place, v any) {
	l.write(Write{Path: at.path, Type: l.id.Elem, Effect: Replaced, Value: v, Was: l.now[i], Had: true})
	l.set(i, v)
}

// insert inserts items at their positions.
func (l *list) insert(items []fragment.Item) {
	allowed := make([]fragment.Item, 0, len(items))
	for _, it := range items {
		at := l.at.item(it.Key)
		if w := at.writers; w != nil && w.deleted {
			l.disagree(at, w.by, nil, it.JSON(), hintDeletes)
			continue
		}
		value := it.JSON()
		if l.id.Elem.IsContainer() {
			value = l.withToken(podschema.ObjectOf(value))
		}
		n := fragment.Scalar(l.id.Elem, value)
		n.Position = it.Position
		allowed = append(allowed, fragment.Item{Key: it.Key, Node: n})
	}
	if len(allowed) == 0 {
		return
	}
	all, stray := fragment.Insert(l.id, l.now, l.front(), allowed)
	l.now, l.copied = all, true
	for _, it := range allowed {
		w := Write{Path: l.at.path.Key(it.Key), Type: l.id.Elem, Effect: Added, Value: it.Value, First: isFirst(it)}
		if gone, moved := l.moved[it.Key]; moved {
			w.Effect, w.Was, w.RemovedItems = Replaced, gone.Item, []RemovedItem{gone}
		}
		l.write(w)
		if f, joins := l.fresh[it.Key]; joins {
			l.joins(f.joined, f.text)
		}
	}
	for _, it := range stray {
		side := "before"
		if it.Position.Kind == directive.After {
			side = "after"
		}
		l.warn(l.at.item(it.Key), fmt.Sprintf(noAnchor, podschema.Clip(it.Position.Anchor), side))
	}
}

func isFirst(it fragment.Item) bool {
	return it.Position.Kind == directive.First || it.Position.Kind == directive.Before && it.Position.Anchor == ""
}

// front returns the number of items at the beginning of the list that earlier templates put first. A required
// template comes before all that are not required.
func (l *list) front() int {
	if l.at.writers == nil {
		return 0
	}
	for i, item := range l.now {
		key, _ := l.id.Key(item)
		if w := l.at.writers.child(key); w == nil || !w.first || l.template.Required && !w.required {
			return i
		}
	}
	return len(l.now)
}

// detach removes a merged item from the list, and returns it for insertion at its position.
func (l *list) detach(it fragment.Item) fragment.Item {
	i := l.index[it.Key]
	merged := l.now[i]
	base := podschema.ListOf(podschema.LookUp(l.base, l.at.path.Segments()))
	gone := RemovedItem{At: i, Item: merged}
	if j, ok := podschema.IndexIn(l.id, base, map[string]bool{it.Key: true})[it.Key]; ok {
		gone = RemovedItem{At: j, Item: base[j]}
	}
	if l.moved == nil {
		l.moved = map[string]RemovedItem{}
	}
	l.moved[it.Key] = gone
	l.now, l.copied = slices.Delete(slices.Clone(l.now), i, i+1), true
	l.index = podschema.IndexIn(l.id, l.now, l.keys)
	n := fragment.Scalar(l.id.Elem, merged)
	n.Position = it.Position
	return fragment.Item{Key: it.Key, Node: n}
}
