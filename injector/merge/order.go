package merge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// ErrPositions is the error inside a [FragmentError] when $position asks for an
// order that there is not.
var ErrPositions = errors.New("$position makes a cycle")

// order is where the items of one list want to stand.
type order struct {
	wishes  []wish
	members map[string]*member // by key: the items and the anchors of the wishes
	walks   int                // counts the searches among the members
	firsts  []First
	// How many items the templates have put in front: those that are required,
	// and the others behind them.
	required, others int
	// behind has the other items of templates that are not required, by key.
	behind map[string]behind
}

// behind is an item that a template has put in, and not in front.
type behind struct {
	place    int // the template's, among those given
	anchored bool
}

// side is a side on which an item stands.
type side int

const (
	before side = iota
	after
)

// member is an item or an anchor of the wishes of one list.
type member struct {
	own *wish // its own wish, the first template's; nil for an anchor
	// next has the members that stand directly before it, and those directly after,
	// by the wishes. Wishes are what puts those after it there, in the same order.
	next   [2][]*member
	wishes []int
	// seen is the number of the last search that came by, on each side.
	seen [2]int
}

// wish says that an item stands on a side of an anchor, both by their keys.
type wish struct {
	template     string
	at           *place // the item's
	item, anchor string
	after        bool
}

func (w wish) side() string {
	if w.after {
		return "after"
	}
	return "before"
}

func (w wish) String() string {
	return fmt.Sprintf("%s stands %s %s (template %s)", keyName(w.item), w.side(), keyName(w.anchor), w.template)
}

// keyName is the part of an item's key that people write in $position.
func keyName(key string) string {
	first, _, _ := strings.Cut(key, ",")
	_, name, _ := strings.Cut(first, "=")
	return name
}

// edge returns the wish as "this one stands before that one".
func (w wish) edge() (from, to string) {
	if w.after {
		return w.anchor, w.item
	}
	return w.item, w.anchor
}

// wishOf reads the $position of an item that asks for a neighbour.
func wishOf(id podschema.Identity, it listItem) (wish, bool) {
	position := it.says.Position
	if position.Anchor == "" || id.Set() {
		return wish{}, false
	}
	w := wish{item: it.key, after: position.Kind == directive.After}
	anchor, ok := id.Key(map[string]any{id.Keys[0].Name: position.Anchor})
	if !ok {
		// The other fields of the key have no default: no item has this key.
		anchor = id.Keys[0].Name + "=" + position.Anchor
	}
	w.anchor = anchor
	return w, true
}

// orderOf returns the order of the list at a place.
func orderOf(at *place) *order {
	n := at.note()
	if n.order == nil {
		n.order = &order{}
	}
	return n.order
}

// front is where the next item goes that wants to be first.
func (o *order) front(required bool) int {
	if required {
		return o.required
	}
	return o.required + o.others
}

// put notes that n more items stand in front.
func (o *order) put(required bool, n int) {
	if required {
		o.required += n
	} else {
		o.others += n
	}
}

// putBehind notes an item of a template that is not required, and not in front.
func (o *order) putBehind(place int, it listItem) {
	if o.behind == nil {
		o.behind = map[string]behind{}
	}
	o.behind[it.key] = behind{place, it.says.Position.Anchor != ""}
}

// end is where a template's items go that stand at the end: in front of the templates that
// come later, which were merged before if they are not required.
func (o *order) end(f *Fragment, id podschema.Identity, items []any) int {
	last, start := -1, 0
	for i, key := range podschema.KeysIn(id, items, o.behind) {
		b := o.behind[key]
		if b.place < f.place {
			continue
		}
		if i != last+1 || last < 0 {
			start = i
		}
		if !b.anchored {
			return start
		}
		last = i
	}
	return len(items)
}

// member returns the member of that key, made if need be.
func (o *order) member(key string) *member {
	m := o.members[key]
	if m == nil {
		m = &member{}
		if o.members == nil {
			o.members = map[string]*member{}
		}
		o.members[key] = m
	}
	return m
}

// add takes a wish in, or returns an error that tells the cycle it would close.
func (o *order) add(w wish) error {
	earlier, later := w.edge()
	from, to := o.member(earlier), o.member(later)
	if from == to || o.leads(to, from) {
		return fmt.Errorf("%w: %s", ErrPositions, o.chain(w))
	}
	o.wishes = append(o.wishes, w)
	if item := o.members[w.item]; item.own == nil {
		item.own = &w
	}
	from.next[after] = append(from.next[after], to)
	from.wishes = append(from.wishes, len(o.wishes)-1)
	to.next[before] = append(to.next[before], from)
	return nil
}

// leads reports whether wishes lead from one member to another. It searches from
// both ends in turn, so that the end with less around it decides the cost.
func (o *order) leads(from, to *member) bool {
	o.walks++
	searches := [2]search{after: {number: o.walks, side: after}, before: {number: o.walks, side: before}}
	searches[after].reach(from)
	searches[before].reach(to)
	for {
		for _, s := range []side{after, before} {
			m, more := searches[s].step()
			if !more {
				return false
			}
			if m != nil && m.seen[1-s] == o.walks {
				return true
			}
		}
	}
}

// search goes along the wishes in one direction.
type search struct {
	number int
	side   side
	queue  []*member
	// at is the member of the queue whose neighbours come next, from the one of
	// number edge.
	at, edge int
}

func (s *search) reach(m *member) {
	m.seen[s.side] = s.number
	s.queue = append(s.queue, m)
}

// step goes along one wish. It returns the member that it reaches for the first
// time, if any, and false when there is nothing left.
func (s *search) step() (*member, bool) {
	for s.at < len(s.queue) && s.edge == len(s.queue[s.at].next[s.side]) {
		s.at, s.edge = s.at+1, 0
	}
	if s.at == len(s.queue) {
		return nil, false
	}
	m := s.queue[s.at].next[s.side][s.edge]
	s.edge++
	if m.seen[s.side] == s.number {
		return nil, true
	}
	s.reach(m)
	return m, true
}

// chain tells the wishes that lead from w's later item to its earlier one, and
// w itself.
func (o *order) chain(w wish) string {
	earlier, later := w.edge()
	from, to := o.members[earlier], o.members[later]
	// Those that lead to the earlier item.
	o.walks++
	behind := search{number: o.walks, side: before}
	behind.reach(from)
	for more := true; more; {
		_, more = behind.step()
	}
	texts := []string{w.String()}
	for at := to; at != from; {
		next := slices.IndexFunc(at.next[after], func(m *member) bool { return m.seen[before] == o.walks })
		if next < 0 {
			break
		}
		texts = append(texts, o.wishes[at.wishes[next]].String())
		at = at.next[after][next]
	}
	return strings.Join(texts, ", ")
}

// arrange returns the values of items in their order, and how many of them
// wanted to be first.
func (o *order) arrange(id podschema.Identity, items []listItem) (values []any, front int) {
	if o == nil || len(o.wishes) == 0 {
		values = make([]any, 0, len(items))
		for _, it := range items {
			if it.first() {
				values = append(values, it.value)
			}
		}
		front = len(values)
		for _, it := range items {
			if !it.first() {
				values = append(values, it.value)
			}
		}
		return values, front
	}
	a := o.arrangement(id, nil, nil, 0, 0)
	for _, it := range items {
		a.putInNew(it)
	}
	return a.result()
}

// localOrder is the order that the items of one list ask for among themselves.
// A cycle was reported when the fragment was read.
func localOrder(id podschema.Identity, items []listItem) *order {
	var o *order
	for _, it := range items {
		if w, ok := wishOf(id, it); ok {
			if o == nil {
				o = &order{}
			}
			_ = o.add(w)
		}
	}
	return o
}

// notePosition takes in what an item of a fragment's list says about its place.
func (r *reader) notePosition(id podschema.Identity, it listItem) error {
	switch it.says.Position.Kind {
	case directive.First:
		o := orderOf(r.at())
		o.firsts = append(o.firsts, First{Template: r.frag.Template, Item: it.key, Required: r.frag.Required})
	case directive.Before, directive.After:
		if w, ok := wishOf(id, it); ok {
			list := r.at()
			w.template, w.at = r.frag.Template, list.field(it.key)
			return orderOf(list).add(w)
		}
	}
	return nil
}

// notePlaced warns that $position does not move an item that the pod has already.
func (m *listMerger) notePlaced(it listItem, at *place) {
	if m.frag.Required || at.find().ours() {
		return
	}
	i, _ := m.list.find(it.key)
	switch it.says.Position.Kind {
	case directive.First:
		if i <= orderOf(at.parent).front(false) {
			return
		}
	case directive.Before, directive.After:
		w, _ := wishOf(m.list.id, it)
		j, have := m.list.find(w.anchor)
		if !have || (i < j) != w.after {
			return
		}
	default:
		return
	}
	m.warnings.add(m.frag.Template, at, "the pod has it already, and it stays where the pod has it, whatever $position says")
}

// warnOfAnchors tells of items that a template put in, and whose neighbour is
// not there.
func (m *merger) warnOfAnchors() {
	ordered := false
	m.changes.walk(func(c *Change) { ordered = ordered || c.order != nil && len(c.order.wishes) > 0 })
	if !ordered {
		return
	}
	type lost struct {
		wish
		sorted string
	}
	var all []lost
	m.changes.walkIn(podschema.Pod(), m.root.fields, func(c *Change, t *podschema.Type, v any) {
		if items, ok := v.([]any); ok && c.order != nil {
			for _, w := range c.order.missing(t, items) {
				all = append(all, lost{w, w.template + " " + w.at.String()})
			}
		}
	})
	slices.SortFunc(all, func(a, b lost) int { return cmp.Compare(a.sorted, b.sorted) })
	for _, w := range all {
		m.warnings.add(w.template, w.at, fmt.Sprintf("there is no %s for it to stand %s, so it stands where it would without $position", keyName(w.anchor), w.side()))
	}
}

// missing returns the wishes whose template put the item into the list, and whose
// anchor the list does not have.
func (o *order) missing(t *podschema.Type, items []any) []wish {
	id, _ := t.Identity()
	have := podschema.IndexIn(id, items, o.members)
	return slices.DeleteFunc(slices.Clone(o.wishes), func(w wish) bool {
		_, there := have[w.anchor]
		return there || !w.at.find().ours() || !slices.Contains(w.at.find().Templates, w.template)
	})
}
