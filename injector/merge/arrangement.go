package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// arrangement is a list while items are put into it as the wishes of an order have
// it. The list is a chain of slots. An item goes in behind all that stand before it
// by the wishes, and in front of all that stand after it. Finding the two costs no
// walk over the list: each member knows the nearest of them, and tells its
// neighbours when that changes.
type arrangement struct {
	order *order
	// head is in front of the first slot, and has no item.
	head, tail *slot
	// front is the last slot of those that wanted to be first, head for none.
	front *slot
	// next is the slot in front of which items go that stand at the end, nil for none.
	next *slot
	// recent is the slot that was put in last.
	recent *slot
	states map[string]*state
	of     map[*member]*state
}

// slot is one item, or several in a row that nobody asks for.
type slot struct {
	prev, next *slot
	items      []any
	state      *state // of the item; nil if nobody asks for it
	// number is larger than that of all slots in front.
	number uint64
}

// state is what the arrangement knows of a key: one of a wish, or of an item that is
// put in.
type state struct {
	member *member // nil for none
	// own has the item's slots by the side that asks: the last one of the key for
	// those that stand after it, the first one for those before.
	own [2]*slot
	// nearest has the last slot of the item and of all that stand before it, and the
	// first slot of the item and of all that stand after it. Known reports whether it
	// was worked out.
	nearest [2]*slot
	known   [2]bool
	// run is a slot in the row of items directly behind this one that asked to stand
	// after it, as far as the row was walked.
	run *slot
}

// step is the distance between the numbers of two neighbouring slots at the
// beginning.
const step = 1 << 40

// arrangement returns a list with items in it, of which the first ones stand in
// front, and those from the index end stand behind what is put at the end. Others are the
// items that will be put in.
func (o *order) arrangement(id podschema.Identity, items []any, others []listItem, front, end int) *arrangement {
	a := &arrangement{order: o, head: &slot{}, states: map[string]*state{}, of: map[*member]*state{}}
	a.tail, a.front = a.head, a.head
	for key, m := range o.members {
		s := &state{member: m}
		a.states[key], a.of[m] = s, s
	}
	for _, it := range others {
		a.state(it.key)
	}
	var next *state
	if end < len(items) {
		key, _ := id.Key(items[end])
		next = a.state(key)
	}
	start := 0
	rest := func(end int) {
		if start < front && front < end {
			a.push(items[start:front], nil)
			a.front, start = a.tail, front
		}
		if start < end {
			a.push(items[start:end], nil)
		}
		start = end
		if end == front {
			a.front = a.tail
		}
	}
	for i, key := range podschema.KeysIn(id, items, a.states) {
		rest(i)
		a.push(items[i:i+1], a.states[key])
		if start = i + 1; start == front {
			a.front = a.tail
		}
	}
	rest(len(items))
	if next != nil {
		a.next = next.own[after]
	}
	return a
}

// state returns the state of a key, made if need be.
func (a *arrangement) state(key string) *state {
	s := a.states[key]
	if s == nil {
		s = &state{}
		a.states[key] = s
	}
	return s
}

func (a *arrangement) push(items []any, s *state) *slot {
	return a.insert(a.tail, items, s)
}

// insert puts a slot behind another one.
func (a *arrangement) insert(behind *slot, items []any, s *state) *slot {
	n := &slot{prev: behind, next: behind.next, items: items, state: s}
	behind.next = n
	if n.next != nil {
		n.next.prev = n
		a.breakRun(n)
	} else {
		a.tail = n
	}
	n.number = a.numberOf(n)
	a.recent = n
	if s != nil {
		if s.own[before] == nil || s.own[before].number < n.number {
			s.own[before] = n
		}
		if s.own[after] == nil || n.number < s.own[after].number {
			s.own[after], s.run = n, nil
		}
	}
	return n
}

// numberOf returns a number for a new slot between its neighbours. It leaves more
// room on the side on which a row of items is growing.
func (a *arrangement) numberOf(n *slot) uint64 {
	low := n.prev.number
	if n.next == nil {
		return low + step
	}
	room := n.next.number - low
	if room < 2 {
		number := uint64(0)
		for s := a.head.next; s != nil; s = s.next {
			number += step
			s.number = number
		}
		return n.number
	}
	switch a.recent {
	case n.prev:
		return low + max(1, room>>6)
	case n.next:
		return low + room - max(1, room>>6)
	}
	return low + room/2
}

// breakRun forgets a row of followers in the middle of which another item is put.
func (a *arrangement) breakRun(n *slot) {
	if anchor := n.next.follows(); anchor != "" && n.follows() != anchor {
		a.states[anchor].run = nil
	}
}

// follows returns the key of the item that this one asked to stand after, "" for
// none.
func (s *slot) follows() string {
	if s.state == nil || s.state.member == nil {
		return ""
	}
	if own := s.state.member.own; own != nil && own.after {
		return own.anchor
	}
	return ""
}

// endOfRun returns the last one of the items directly behind an anchor that asked to
// stand after it, too: they came first.
func (a *arrangement) endOfRun(anchor string) *slot {
	s := a.states[anchor]
	end := s.run
	if end == nil {
		end = s.own[after]
	}
	for end.next != nil && end.next.follows() == anchor {
		end = end.next
	}
	s.run = end
	return end
}

// nearest returns the slot that counts of all that stand on a side of a member, with
// its own: the last one of those before it, the first one of those after it. Nil is
// none.
func (a *arrangement) nearest(on side, s *state) *slot {
	if s.known[on] || s.member == nil {
		return s.nearest[on]
	}
	s.known[on] = true
	found := s.own[on]
	for _, m := range s.member.next[on] {
		found = nearer(on, found, a.nearest(on, a.of[m]))
	}
	s.nearest[on] = found
	return found
}

// nearer returns the later one of two slots for those before an item, and the
// earlier one for those after it.
func nearer(on side, s, t *slot) *slot {
	switch {
	case s == nil:
		return t
	case t == nil || (s.number > t.number) == (on == before):
		return s
	}
	return t
}

// put puts an item in, where the wishes have it, and returns its slot.
func (a *arrangement) put(it listItem) *slot {
	s := a.state(it.key)
	low, high := a.nearest(before, s), a.nearest(after, s)
	behind := a.wanted(it, s)
	broken := low != nil && high != nil && low.number >= high.number // the pod's own items stand otherwise
	if !broken {
		if low != nil && behind.number < low.number {
			behind = low
		}
		if high != nil && behind.number >= high.number {
			behind = high.prev
		}
	}
	n := a.insert(behind, []any{it.value}, s)
	for _, on := range []side{before, after} {
		s.nearest[on], s.known[on] = nearer(on, s.nearest[on], n), true
		a.tell(on, s, broken)
	}
	return n
}

// wanted returns the slot behind which an item wants to stand.
func (a *arrangement) wanted(it listItem, s *state) *slot {
	if s.member != nil && s.member.own != nil {
		own := s.member.own
		if at := a.states[own.anchor].own[after]; at != nil {
			if own.after {
				return a.endOfRun(own.anchor)
			}
			return at.prev
		}
	}
	if it.first() {
		return a.front
	}
	if a.next != nil {
		return a.next.prev
	}
	return a.tail
}

// tell tells the members on the other side of one that there is another slot on this
// side of them. An item in the list that stands on its right side has its own slot
// nearer. So the news end there, unless the list stands otherwise.
func (a *arrangement) tell(on side, s *state, broken bool) {
	if s.member == nil {
		return
	}
	a.order.walks++
	news, stack := s.nearest[on], []*member{s.member}
	for len(stack) > 0 {
		m := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, n := range m.next[1-on] {
			t := a.of[n]
			switch {
			case broken:
				if n.seen[on] == a.order.walks || t.known[on] && nearer(on, t.nearest[on], news) == t.nearest[on] {
					continue
				}
				n.seen[on] = a.order.walks
				if t.known[on] {
					t.nearest[on] = news
				}
			case t.own[on] != nil || !t.known[on]:
				continue
			default:
				t.known[on], t.nearest[on] = false, nil
			}
			stack = append(stack, n)
		}
	}
}

// putInNew puts an item into a list that is made anew.
func (a *arrangement) putInNew(it listItem) {
	front := a.front
	n := a.put(it)
	switch {
	case !it.first():
	case n.prev == front:
		a.front = n
	case n.number > front.number:
		a.front = front.next
	}
}

// putInOld puts an item into a list that is there.
func (a *arrangement) putInOld(it listItem) {
	if n := a.put(it); it.first() {
		a.front = n
	}
}

// passed notes that an item that is there stands in front, since a template put it
// there.
func (a *arrangement) passed(key string) {
	if at := a.state(key).own[before]; at != nil && at.number > a.front.number {
		a.front = at
	}
}

// result returns the items, and how many of them stand in front.
func (a *arrangement) result() (items []any, front int) {
	n := 0
	for s := a.head.next; s != nil; s = s.next {
		n += len(s.items)
	}
	items = make([]any, 0, n)
	for s := a.head; s != nil; s = s.next {
		items = append(items, s.items...)
		if s == a.front {
			front = len(items)
		}
	}
	return slices.Clip(items), front
}
