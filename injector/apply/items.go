package apply

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// list changes a list of type t to want in the places of the node's tree: it changes the present items, then
// deletes items, then inserts the absent ones.
func (a *run) list(t *podschema.Type, now, want []any, c cursor) []any {
	id, ok := t.Identity()
	if !ok {
		return now
	}
	n := c.node
	l := &items{run: a, id: id, at: c.at, now: now, index: index(id, now, n, c.record), wants: podschema.IndexIn(id, want, n.in)}
	going, absent := map[string]bool{}, map[string]bool{}
	for _, key := range n.segments() {
		if a.ctx.Err() != nil {
			return now
		}
		child, rc := n.in[key], c.record.Child(key)
		var item, wanted any
		i, there := l.index[key]
		if there {
			item = l.now[i]
		}
		if j, ok := l.wants[key]; ok {
			wanted = want[j]
		}
		do := keep
		if child.entry != nil {
			do = a.step(id.Elem, child, rc, item, true)
		}
		switch {
		case do == leave:
			a.warnings = append(a.warnings, fmt.Sprintf("template %s: %s: %s", child.template, child.path.Readable(), changedSince))
		case do == remove:
			going[key] = true
			a.set(child)
		case do == put && there && len(child.entry.RemovedItems) > 0:
			going[key], absent[key] = true, true // it moves
			a.set(child)
		case do == put && there:
			l.set(i, key, inPlaceOf(id.Elem, child, rc, item, wanted))
			a.set(child)
		case do == put:
			absent[key] = true
			a.set(child)
		case there:
			if v, is := a.inside(id.Elem, item, wanted, c.item(key, i)); is {
				l.replace(i, v)
			}
		}
	}
	l.deleteItems(going)
	l.insertItems(absent, want)
	return l.now
}

// index returns the list's item for each of the node's keys. Of several items with one key it returns the
// recorded one, or else the last.
func index(id podschema.Identity, now []any, n *node, r *record.Tree) map[string]int {
	all := podschema.IndexIn(id, now, n.in)
	if r == nil || id.Set() {
		return all
	}
	for key, i := range r.Find(id, now) {
		if _, ok := all[key]; ok {
			all[key] = i
		}
	}
	return all
}

// items is one list of the pod during the change.
type items struct {
	*run
	id     podschema.Identity
	at     *location
	now    []any
	copied bool
	// index has the item of now for each key, wants that of the wanted list.
	index, wants map[string]int
}

// replace replaces an item whose operations have been emitted.
func (l *items) replace(i int, v any) {
	if !l.copied {
		l.now, l.copied = slices.Clone(l.now), true
	}
	l.now[i] = v
}

func (l *items) set(i int, key string, v any) {
	l.emit(patch.Replace, l.at.item(key, i), v)
	l.replace(i, v)
}

// deleteItems removes all items of the keys.
func (l *items) deleteItems(going map[string]bool) {
	if len(going) == 0 {
		return
	}
	var out []int
	kept, start := make([]any, 0, len(l.now)), 0
	for i := range podschema.KeysIn(l.id, l.now, going) {
		out = append(out, i)
		kept = append(kept, l.now[start:i]...)
		start = i + 1
	}
	kept = append(kept, l.now[start:]...)
	for _, i := range slices.Backward(out) {
		l.emit(patch.Remove, l.at.item("", i), nil)
	}
	l.now, l.copied = kept, true
}

// insertItems inserts absent items: each after the nearest present item that precedes it in the target's list,
// else before the nearest that follows it, else at the end.
func (l *items) insertItems(absent map[string]bool, want []any) {
	if len(absent) == 0 {
		return
	}
	stands := map[string]int{} // the item of now by its key; the last of a key
	for i, item := range l.now {
		if key, ok := l.id.Key(item); ok {
			stands[key] = i
		}
	}
	// behind[i] are the items to insert after item i-1; behind[0] come before all others.
	behind := make([][]any, len(l.now)+1)
	last := -1
	var leading []any
	for j, item := range want {
		key, ok := l.id.Key(item)
		if ok && absent[key] && l.wants[key] == j {
			if last < 0 {
				leading = append(leading, item)
			} else {
				behind[last] = append(behind[last], item)
			}
			continue
		}
		i, there := stands[key]
		if !ok || !there {
			continue
		}
		if last < 0 {
			behind[i] = append(behind[i], leading...)
			leading = nil
		}
		last = i + 1
	}
	if leading != nil {
		behind[len(l.now)] = append(behind[len(l.now)], leading...)
	}
	all := make([]any, 0, len(l.now)+len(absent))
	for i := range len(l.now) + 1 {
		for _, item := range behind[i] {
			key, _ := l.id.Key(item)
			at := l.at.item(key, len(all))
			if i == len(l.now) {
				at = l.at.end(key)
			}
			l.emit(patch.Add, at, item)
			all = append(all, item)
		}
		if i < len(l.now) {
			all = append(all, l.now[i])
		}
	}
	l.now, l.copied = all, true
}

// inPlaceOf returns the replacement of an item. A container keeps two changes by others: the mount of the
// service account's token, and a mirrored or updated image if the template's image is as before.
func inPlaceOf(t *podschema.Type, n *node, r *record.Tree, now, want any) any {
	before, isContainer := now.(map[string]any)
	container, ok := want.(map[string]any)
	if !t.IsContainer() || !ok || !isContainer {
		return want
	}
	container = maps.Clone(container)
	image, recorded := n.child("image"), r.Child("image")
	if image != nil && recorded != nil && recorded.Entry != nil && recorded.Entry.Sum == image.entry.Sum {
		container["image"] = before["image"]
	}
	mounts, _ := container["volumeMounts"].([]any)
	old, _ := before["volumeMounts"].([]any)
	isToken := func(v any) bool { mount, _ := v.(map[string]any); return mount["mountPath"] == merge.TokenPath }
	if i := slices.IndexFunc(old, isToken); i >= 0 && !slices.ContainsFunc(mounts, isToken) {
		container["volumeMounts"] = append(slices.Clone(mounts), old[i])
	}
	return container
}
