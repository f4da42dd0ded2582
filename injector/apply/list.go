package apply

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// list applies the changes to a list whose items have keys: items that are
// there are changed first, then those that go are taken out, then absent ones
// are put in.
func (a *run) list(t *podschema.Type, c *merge.Change, b, w, p []any, r *record.Place, at *location) []any {
	id, ok := t.Identity()
	if !ok {
		return p
	}
	l := &items{run: a, id: id, change: c, base: b, wanted: w, now: slices.Clone(p), record: r, at: at}
	l.index = r.Match(id, p)
	l.counts = merge.IndexOf(id, p)
	l.wants, l.was = merge.IndexOf(id, w), merge.IndexOf(id, b)
	taken := map[string]bool{}
	for _, rm := range r.Removed {
		if key, ok := id.Key(rm.Value); ok {
			taken[key] = true
		}
	}
	going, absent := map[string]bool{}, map[string]bool{}
	for _, key := range c.Segments() {
		child := c.In[key]
		_, have := l.index[key]
		switch {
		case child.Do == merge.Remove:
			if !taken[key] && l.goes(key, child) {
				going[key] = true
			}
		case child.Do == merge.Expect:
		case have:
			l.update(key, child)
		case child.Do == merge.Write, child.Edits():
			absent[key] = true
		}
	}
	l.takeOut(going)
	l.putIn(absent)
	return l.now
}

// items is one list of a pod while a plan is applied to it.
type items struct {
	*run
	id                podschema.Identity
	change            *merge.Change
	base, wanted, now []any
	// index has the item of now that the record means by each key, counts the one
	// that counts for the pod; wants and was are for wanted and base.
	index, counts, wants, was map[string]int
	record                    *record.Place
	at                        *location
}

// update applies the changes to an item that the pod has.
func (l *items) update(key string, c *merge.Change) {
	i := l.index[key]
	rc := l.record.Child(key)
	var was any
	wasAt, had := l.was[key]
	if had {
		was = l.base[wasAt]
	}
	wantsAt, ok := l.wants[key]
	if !ok {
		return
	}
	wanted := l.wanted[wantsAt]
	if !rc.Owns() {
		i = l.counts[key]
	}
	at := l.at.item(key, i)
	switch {
	case c.Do == merge.Write && l.id.Set():
		// The key is the value.
	case c.Do == merge.Write:
		if v, write := l.value(c, l.id.Elem, wanted, l.now[i], record.OfItem(l.id, wanted), rc, at, l.id.Keys); write {
			l.emit("replace", at, v)
			l.now[i] = v
			l.record.Set(key, written(record.OfItem(l.id, v), rc, was, had))
		} else if v != nil {
			l.now[i] = v
		}
	case rc.Owns():
		if !c.Edits() {
			return
		}
		if !unchanged(rc, l.id.Elem, l.now[i]) {
			l.warn(c, at)
			return
		}
		l.emit("replace", at, wanted)
		l.now[i] = wanted
		l.record.Set(key, anew(c, l.id.Elem, was, wanted))
	default:
		rc = l.record.Enter(key)
		l.now[i] = l.descend(l.id.Elem, c, was, wanted, l.now[i], rc, at)
		if rc.Empty() {
			delete(l.record.In, key)
		}
	}
}

// goes reports whether an item has to be taken out.
func (l *items) goes(key string, c *merge.Change) bool {
	rc := l.record.Child(key)
	i, have := l.index[key]
	if have && rc.Owns() && !unchanged(rc, l.id.Elem, l.now[i]) {
		l.warn(c, l.at.item(key, i))
		return false
	}
	return true
}

// takeOut removes all items of the keys, and records them as they are in the
// base pod.
func (l *items) takeOut(going map[string]bool) {
	if len(going) == 0 {
		return
	}
	var out []int
	for i, item := range l.now {
		if key, ok := l.id.Key(item); ok && going[key] {
			out = append(out, i)
		}
	}
	for _, i := range slices.Backward(out) {
		l.emit("remove", l.at.item("", i), nil)
	}
	next := 0
	kept := make([]any, 0, len(l.now)-len(out))
	for i, item := range l.now {
		if next < len(out) && out[next] == i {
			next++
			continue
		}
		kept = append(kept, item)
	}
	l.now = kept
	for i, item := range l.base {
		if key, ok := l.id.Key(item); ok && going[key] {
			l.record.Removed = append(l.record.Removed, record.Removed{At: i, Value: item})
		}
	}
	for key := range going {
		delete(l.record.In, key)
	}
}

// putIn puts absent items in, and records them.
func (l *items) putIn(absent map[string]bool) {
	if len(absent) == 0 {
		return
	}
	l.now = l.insert(l.id, l.wanted, l.now, absent, l.at)
	// An item that was taken out before, and that the plan wants with changes in it,
	// is in the pod again.
	l.record.Removed = slices.DeleteFunc(l.record.Removed, func(r record.Removed) bool {
		key, ok := l.id.Key(r.Value)
		return ok && absent[key] && l.change.In[key].Do != merge.Write
	})
	for key := range absent {
		wantsAt, ok := l.wants[key]
		if !ok {
			continue
		}
		c, rc := l.change.In[key], l.record.Child(key)
		var was any
		wasAt, had := l.was[key]
		if had {
			was = l.base[wasAt]
		}
		if c.Do == merge.Write {
			l.record.Set(key, written(record.OfItem(l.id, l.wanted[wantsAt]), rc, was, had))
			continue
		}
		l.record.Set(key, anew(c, l.id.Elem, was, l.wanted[wantsAt]))
	}
}

// insert puts the wanted items of the keys into a list of the pod, each behind
// the nearest item before it in the wanted list that the pod has. Those at the end
// of the wanted list go to the end.
func (a *run) insert(id podschema.Identity, wanted, now []any, keys map[string]bool, at *location) []any {
	stands := map[string]int{}
	for i, slot := range slots(id, now) {
		stands[slot] = i
	}
	behind := map[int][]int{} // index in now, -1 for the front: indexes in wanted
	last := -1
	for i, slot := range slots(id, wanted) {
		if keys[slot] {
			behind[last] = append(behind[last], i)
		} else if j, ok := stands[slot]; ok {
			last = j
		}
	}
	if end := len(now) - 1; last >= 0 && last != end {
		behind[end] = append(behind[end], behind[last]...)
		delete(behind, last)
	}
	grown := make([]any, 0, len(now)+len(keys))
	put := func(after int) {
		for _, i := range behind[after] {
			key, _ := id.Key(wanted[i])
			if after == len(now)-1 {
				a.emit("add", at.end(key), wanted[i])
			} else {
				a.emit("add", at.item(key, len(grown)), wanted[i])
			}
			grown = append(grown, wanted[i])
		}
	}
	put(-1)
	for i, item := range now {
		grown = append(grown, item)
		put(i)
	}
	return grown
}

// slots names each item of a list: by its key, and later ones of a key and
// those without one by their number.
func slots(id podschema.Identity, list []any) []string {
	names := make([]string, len(list))
	seen := map[string]int{}
	for i, item := range list {
		key, _ := id.Key(item)
		n := seen[key]
		seen[key]++
		if n > 0 || key == "" {
			key = fmt.Sprintf("%s\x00%d", key, n)
		}
		names[i] = key
	}
	return names
}
