package apply

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// list applies the changes to a list whose items have keys: items that are
// there are changed first, then those that go are taken out, then absent ones
// are put in. B, w and now are it in the base pod, as wanted, and as it is. R is its place.
func (a *run) list(s spot, b, w, now []any, r *record.Place) []any {
	id, ok := s.t.Identity()
	if !ok {
		return now
	}
	c := s.change
	l := &items{run: a, id: id, change: c, base: b, wanted: w, now: now, record: r, at: s.at}
	l.wants = podschema.IndexIn(id, w, c.In)
	l.was, l.earlier = countedIn(id, b, c.In)
	l.findNow()
	left := l.undo()
	taken := map[string]bool{}
	for _, rm := range r.Removed {
		if key, ok := id.Key(rm.Value); ok {
			taken[key] = true
		}
	}
	going, absent := map[string]bool{}, map[string]bool{}
	for _, key := range c.Segments() {
		if a.interrupted() {
			return now
		}
		child := c.In[key]
		_, have := l.index[key]
		switch {
		case left[key]:
		case child.Do == merge.Remove:
			if !taken[key] && l.goes(key, child) {
				going[key] = true
			}
		case child.Do == merge.Expect:
		case child.Do == merge.Beside && !l.record.Child(key).Owns():
			absent[key] = true
		case have:
			l.update(key, child)
		case child.Writes(), child.Edits():
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
	owned             bool // now is a copy
	// index has the item of now that the record means by each key, counts the one
	// that counts for the pod; wants and was are for wanted and base.
	index, counts, wants, was map[string]int
	// earlier and before have, by its index, how many items of the same key stand in front
	// of an item of base and of now, where any do.
	earlier, before map[int]int
	record          *record.Place
	at              *location
}

// findNow finds the items of the pod.
func (l *items) findNow() {
	l.index = record.Match(l.record, l.id, l.now, l.change.In)
	l.counts, l.before = countedIn(l.id, l.now, l.change.In)
}

// countedIn is [podschema.IndexIn]. It also returns how many items of the same key stand
// in front of an item, by its index, where any do.
func countedIn(id podschema.Identity, list []any, keys map[string]*merge.Change) (index map[string]int, earlier map[int]int) {
	index = make(map[string]int, min(len(keys), len(list)))
	for i, key := range podschema.KeysIn(id, list, keys) {
		if last, have := index[key]; have {
			if earlier == nil {
				earlier = map[int]int{}
			}
			earlier[i] = earlier[last] + 1
		}
		index[key] = i
	}
	return index, earlier
}

// movesOn reports whether a template appends to another item of a key than Pillion wrote:
// to one of the base in its place, or beside it, where Pillion's was beside another, in
// the place of another, or alone.
func (l *items) movesOn(key string, c *merge.Change, rc *record.Place) bool {
	if !c.Writes() || !rc.Owns() {
		return false
	}
	if _, have := l.index[key]; !have && c.Do != merge.Beside {
		_, others := l.counts[key]
		return others
	}
	if rc.Gone() {
		return false
	}
	_, had := l.was[key]
	beside := c.Do == merge.Beside
	return beside != rc.Beside() || c.Joined() && !beside && had && len(rc.Was) == 0
}

// undo takes back what Pillion wrote of the keys of which another item counts now. It
// returns the keys whose items somebody changed, which stay.
func (l *items) undo() (left map[string]bool) {
	var moving []string
	for key, c := range l.change.In {
		if l.movesOn(key, c, l.record.Child(key)) {
			moving = append(moving, key)
		}
	}
	slices.Sort(moving)
	changed := false
	var out []int
	for _, key := range moving {
		c, rc := l.change.In[key], l.record.Child(key)
		i, have := l.index[key]
		if have && !unchanged(rc, l.id.Elem, l.now[i]) {
			l.warn(c, l.at.item(key, i))
			if left == nil {
				left = map[string]bool{}
			}
			left[key] = true
			continue
		}
		if changed = true; have && len(rc.Was) > 0 {
			l.emit(patch.Replace, l.at.item(key, i), rc.Was[0])
			l.set(i, rc.Was[0])
		} else if have {
			out = append(out, i)
		}
		l.record.Forget(key)
	}
	if !changed {
		return left
	}
	slices.Sort(out)
	for _, i := range slices.Backward(out) {
		l.emit(patch.Remove, l.at.item("", i), nil)
		l.now, l.owned = slices.Delete(slices.Clone(l.now), i, i+1), true
	}
	l.findNow()
	return left
}

// stands notes how many of its key stand in front of an item that was written.
func (l *items) stands(place *record.Place, c *merge.Change, behind int) {
	switch {
	case c.Do == merge.Beside:
		place.Behind = max(behind, 1) // somebody may have put it in front
	case len(place.Was) > 0:
		place.Behind = behind
	}
}

// set puts an item into the list, which is copied once.
func (l *items) set(i int, v any) {
	if !l.owned {
		l.now, l.owned = slices.Clone(l.now), true
	}
	l.now[i] = v
}

// replace gives an item what settle says, and reports whether that was to be put there.
func (l *items) replace(i int, s spot, settle func(spot) (any, bool)) bool {
	v, put := settle(s)
	if put {
		l.emit(patch.Replace, s.at, v)
	}
	if v != nil {
		l.set(i, v)
	}
	return put
}

// spot returns the spot of an item but for what the pod has there. The plan has it.
func (l *items) spot(key string) spot {
	s := spot{change: l.change.In[key], t: l.id.Elem, item: &l.id, wanted: l.wanted[l.wants[key]], in: l.record, segment: key}
	if i, had := l.was[key]; had {
		s.was, s.had = l.base[i], true
	}
	return s
}

// update applies the changes to an item that the pod has.
func (l *items) update(key string, c *merge.Change) {
	i := l.index[key]
	if _, ok := l.wants[key]; !ok || c.Writes() && l.id.Set() { // the key of a set's item is the value
		return
	}
	if !l.record.Child(key).Owns() {
		i = l.counts[key]
	}
	s := l.spot(key)
	s.now, s.at = l.now[i], l.at.item(key, i)
	if l.replace(i, s, l.settle) && c.Writes() {
		l.stands(s.recorded(), c, l.before[i])
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
	kept, start := make([]any, 0, len(l.now)), 0
	for i := range podschema.KeysIn(l.id, l.now, going) {
		out = append(out, i)
		kept = append(kept, l.now[start:i]...)
		start = i + 1
	}
	l.now, l.owned = append(kept, l.now[start:]...), true
	for _, i := range slices.Backward(out) {
		l.emit(patch.Remove, l.at.item("", i), nil)
	}
	for i := range podschema.KeysIn(l.id, l.base, going) {
		l.record.Removed = append(l.record.Removed, record.Removed{At: i, Value: l.base[i]})
	}
	for key := range going {
		l.record.Forget(key)
	}
}

// putIn puts absent items in, and records them.
func (l *items) putIn(absent map[string]bool) {
	if len(absent) == 0 {
		return
	}
	fresh := map[int]bool{}
	for i, key := range podschema.KeysIn(l.id, l.wanted, absent) {
		// Items that stand in front of one of their key are the pod's own. It has them,
		// unless an earlier call took all of the key out.
		if _, have := l.counts[key]; !have || i == l.wants[key] {
			fresh[i] = true
		}
	}
	l.now = l.insert(l.id, l.wanted, l.now, fresh, l.at)
	// An item that was taken out before, and that the plan wants with changes in it or
	// beside it, is in the pod again.
	l.record.Removed = slices.DeleteFunc(l.record.Removed, func(r record.Removed) bool {
		key, ok := l.id.Key(r.Value)
		return ok && absent[key] && (!l.change.In[key].Writes() || l.change.In[key].Do == merge.Beside)
	})
	for key := range absent {
		if _, ok := l.wants[key]; !ok {
			continue
		}
		s := l.spot(key)
		if !s.change.Writes() {
			l.record.Set(key, l.anew(s))
			continue
		}
		behind := 0
		if s.had {
			if behind = l.earlier[l.was[key]]; s.change.Do == merge.Beside {
				behind++
			}
		}
		l.settle(s)
		l.stands(s.recorded(), s.change, behind)
	}
}

// insert puts fresh items of the wanted list, by their indexes, into a list of the pod,
// each behind the nearest item before it in the wanted list that the pod has. Those at
// the end of the wanted list go to the end.
func (a *run) insert(id podschema.Identity, wanted, now []any, fresh map[int]bool, at *location) []any {
	behind, last := behindOf(id, wanted, now, fresh)
	if end := len(now) - 1; last >= 0 && last != end {
		behind[end] = append(behind[end], behind[last]...)
		delete(behind, last)
	}
	grown := make([]any, 0, len(now)+len(fresh))
	put := func(after int) {
		for _, i := range behind[after] {
			key, _ := id.Key(wanted[i])
			if after == len(now)-1 {
				a.emit(patch.Add, at.end(key), wanted[i])
			} else {
				a.emit(patch.Add, at.item(key, len(grown)), wanted[i])
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

// behindOf returns for each item of now the indexes of the fresh items that go
// behind it, those at the front at -1, and the last item of now that is wanted.
func behindOf(id podschema.Identity, wanted, now []any, fresh map[int]bool) (behind map[int][]int, last int) {
	stands := map[string]int{}
	for i, slot := range slots(id, now) {
		stands[slot] = i
	}
	behind, last = map[int][]int{}, -1
	for i, slot := range slots(id, wanted) {
		if fresh[i] {
			behind[last] = append(behind[last], i)
		} else if j, ok := stands[slot]; ok {
			last = j
		}
	}
	return behind, last
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
