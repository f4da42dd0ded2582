package patch

import "strconv"

// splice is an array into which items are put, and from which items are taken. Its
// items have a gap where the last change was: a change costs as much as it is away
// from the one before it. The operations of a patch come in ascending or descending
// order.
type splice struct {
	items []any // those before gap, and those from end on
	gap   int
	end   int
}

// newSplice returns a copy of the array. Its gap is at the end, where most items are
// added.
func newSplice(array []any) *splice {
	items := make([]any, len(array)+4)
	return &splice{items: items, gap: copy(items, array), end: len(items)}
}

func (s *splice) length() int { return len(s.items) - (s.end - s.gap) }

// index returns where the item of that number is in items.
func (s *splice) index(i int) int {
	if i < s.gap {
		return i
	}
	return i + s.end - s.gap
}

func (s *splice) at(i int) any { return s.items[s.index(i)] }

func (s *splice) set(i int, v any) { s.items[s.index(i)] = v }

// move brings the gap in front of the item of that number.
func (s *splice) move(i int) {
	if i < s.gap {
		copy(s.items[s.end-(s.gap-i):s.end], s.items[i:s.gap])
	} else {
		copy(s.items[s.gap:], s.items[s.end:s.end+i-s.gap])
	}
	s.gap, s.end = i, s.end+i-s.gap
}

func (s *splice) insert(i int, v any) {
	if s.gap == s.end {
		more := len(s.items)/4 + 16
		items := make([]any, len(s.items)+more)
		copy(items, s.items[:s.gap])
		copy(items[s.end+more:], s.items[s.end:])
		s.items, s.end = items, s.end+more
	}
	s.move(i)
	s.items[s.gap] = v
	s.gap++
}

func (s *splice) remove(i int) {
	s.move(i)
	s.items[s.end] = nil
	s.end++
}

// is compares the items with a value.
func (s *splice) is(v any) (where string, same bool) {
	list, ok := v.([]any)
	if !ok || list == nil || len(list) != s.length() {
		return "", false
	}
	for i, item := range list {
		where, same := "", false
		if kid, ok := s.at(i).(*node); ok {
			where, same = kid.is(item)
		} else {
			where, same = compare(s.at(i), item)
		}
		if !same {
			return "/" + strconv.Itoa(i) + where, false
		}
	}
	return "", true
}

// all returns the items. The splice must not be used any more.
func (s *splice) all() []any {
	s.move(s.length())
	return s.items[:s.gap:s.gap]
}
