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

// list applies what is in a node to a list of type t: items that are there are changed first, then
// those that go are taken out, then absent ones are put in.
func (a *run) list(t *podschema.Type, now, want []any, n *node, r *record.Tree, at *location) []any {
	id, ok := t.Identity()
	if !ok {
		return now
	}
	l := &items{run: a, id: id, at: at, now: now, index: index(id, now, n, r), wants: podschema.IndexIn(id, want, n.in)}
	going, absent := map[string]bool{}, map[string]bool{}
	for _, key := range n.segments() {
		if a.ctx.Err() != nil {
			return now
		}
		child, rc := n.in[key], r.Child(key)
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
		case do == put && there && len(child.entry.Gone) > 0:
			going[key], absent[key] = true, true // it moves
			a.set(child)
		case do == put && there:
			l.set(i, key, inPlaceOf(id.Elem, child, rc, item, wanted))
			a.set(child)
		case do == put:
			absent[key] = true
			a.set(child)
		case there:
			if v, is := a.inside(id.Elem, item, wanted, child, rc, at.item(key, i)); is {
				l.replace(i, v)
			}
		}
	}
	l.takeOut(going)
	l.putIn(absent, want)
	return l.now
}

// index returns the item of the list that each of the node's keys means. Of several items of one key
// the record tells which one Pillion wrote; else the last counts.
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

// items is one list of the pod while it is brought up to date.
type items struct {
	*run
	id     podschema.Identity
	at     *location
	now    []any
	copied bool
	// index has the item of now for each key, wants that of the wanted list.
	index, wants map[string]int
}

// replace puts a value in the place of an item, for which there are operations already.
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

// takeOut removes all items of the keys.
func (l *items) takeOut(going map[string]bool) {
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

// putIn puts absent items in: each behind the nearest item that precedes it in the wanted list and is
// there, else in front of the nearest that follows, else last.
func (l *items) putIn(absent map[string]bool, want []any) {
	if len(absent) == 0 {
		return
	}
	stands := map[string]int{} // the item of now by its key; the last of a key
	for i, item := range l.now {
		if key, ok := l.id.Key(item); ok {
			stands[key] = i
		}
	}
	// behind[i] are the items that go behind item i-1; those of behind[0] go in front of all.
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

// inPlaceOf returns what replaces an item. A container keeps what others did to the one before: the mount of
// the token, and the image where the template's is as before, since somebody mirrored it or brought
// it up to date.
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
