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

// Position is what a template's $position says of an item of a list. Items are named by
// their keys.
type Position struct {
	Template string
	Required bool
	Item     string
	// Kind is directive.First, directive.Before or directive.After.
	Kind directive.Kind
	// Anchor is the item that this one stands before or after.
	Anchor string

	at *place // the item's
}

// positionOf reads the $position of an item. It returns false for the default, and for what
// a set cannot have.
func positionOf(id podschema.Identity, it listItem) (Position, bool) {
	says := it.says.Position
	p := Position{Item: it.key, Kind: says.Kind}
	switch says.Kind {
	case directive.First:
		return p, true
	case directive.Before, directive.After:
		anchor, ok := id.Key(map[string]any{id.Keys[0].Name: says.Anchor})
		if !ok {
			// The other fields of the key have no default: no item has this key.
			anchor = id.Keys[0].Name + "=" + says.Anchor
		}
		p.Anchor = anchor
		return p, !id.Set()
	}
	return p, false
}

func (p Position) side() string {
	if p.Kind == directive.After {
		return "after"
	}
	return "before"
}

func (p Position) String() string {
	return fmt.Sprintf("%s stands %s %s (template %s)", keyName(p.Item), p.side(), keyName(p.Anchor), p.Template)
}

// edge returns a position beside an anchor as "this item stands before that one".
func (p Position) edge() (from, to string) {
	if p.Kind == directive.After {
		return p.Anchor, p.Item
	}
	return p.Item, p.Anchor
}

// keyName is the part of an item's key that people write in $position.
func keyName(key string) string {
	first, _, _ := strings.Cut(key, ",")
	_, name, _ := strings.Cut(first, "=")
	return name
}

// order is what templates say of the order of one list. The merge puts their items at the end
// of the list, and [order.arrange] brings all of them into order once, when all are there.
type order struct {
	positions []Position
	added     []added
	// list is the list of the wanted pod, nil if nothing was merged into it.
	list *list
}

// added is an item that a template put into the list.
type added struct {
	key string
	// place is the template's place among those given.
	place int
}

// orderOf returns the order of the list at a place.
func orderOf(at *place) *order {
	n := at.note()
	if n.order == nil {
		n.order = &order{}
	}
	return n.order
}

// listOrder returns the order of the list of a change, nil for none. It works on nil.
func (c *Change) listOrder() *order {
	if c == nil {
		return nil
	}
	return c.order
}

// Positions returns what templates say of the order of the items of a list.
func (c *Change) Positions() []Position {
	if o := c.listOrder(); o != nil {
		return o.positions
	}
	return nil
}

// put notes the items that a fragment puts into the list.
func (o *order) put(f *Fragment, items []listItem) {
	for _, it := range items {
		o.added = append(o.added, added{it.key, f.place})
	}
}

// cycle returns positions that contradict each other, nil if there are none: each one's later
// item is the next one's earlier one. The one that was noted last comes first.
func (o *order) cycle() []Position {
	next := map[string][]int{} // by the earlier item: the positions
	for i, p := range o.positions {
		if p.Anchor != "" {
			from, _ := p.edge()
			next[from] = append(next[from], i)
		}
	}
	done, entered := map[string]bool{}, map[string]int{} // entered: how far the way is that leads there
	var way []int
	var search func(key string) []int
	search = func(key string) []int {
		if i, ok := entered[key]; ok {
			return way[i:]
		}
		if done[key] {
			return nil
		}
		entered[key] = len(way)
		for _, i := range next[key] {
			_, to := o.positions[i].edge()
			way = append(way, i)
			if found := search(to); found != nil {
				return found
			}
			way = way[:len(way)-1]
		}
		delete(entered, key)
		done[key] = true
		return nil
	}
	for _, p := range o.positions {
		from, _ := p.edge()
		found := search(from)
		if found == nil {
			continue
		}
		last := slices.Index(found, slices.Max(found))
		var all []Position
		for _, i := range slices.Concat(found[last:], found[:last]) {
			all = append(all, o.positions[i])
		}
		return all
	}
	return nil
}

// checkCycles refuses positions that make a cycle with those of earlier fragments.
func (r *reader) checkCycles(o *order) error {
	all := o.cycle()
	if all == nil {
		return nil
	}
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return r.frag.fault(all[0].at, "%w: %s", ErrPositions, strings.Join(texts, ", "))
}

// arrange returns the items of a list in their order. The pod's own items keep theirs. In front
// stand the added items that want to be first, required ones before others, and nothing between
// them. Behind the pod's own stand the other added items, in the order of their templates. An
// item that wants a neighbour stands beside it, where the list has it; the first position of an
// item counts. Other positions of it then move as little as they can.
func (o *order) arrange(id podschema.Identity, items []any) []any {
	a := newArrangement(o, id, items)
	front, others := a.roots()
	var found []int
	for _, i := range front {
		found = append(a.with(found, a.before[i]), i)
	}
	for _, i := range front {
		found = a.with(found, a.after[i])
	}
	return a.settled(a.with(found, others))
}

// arrangement is a list that is being ordered. Its items are named by their indexes.
type arrangement struct {
	items []any
	// first and last have the indexes of the added items, and of those that positions name. A
	// pod can have several of a key.
	first, last map[string]int
	// place has the added items, with their templates' places.
	place map[int]int
	// rank is 0 for added items that required templates want first, and 1 for others.
	rank map[int]int
	// before and after have the added items that stand beside an item.
	before, after map[int][]int
	// earlier has the items that positions put in front of an added one.
	earlier map[int][]int
}

func newArrangement(o *order, id podschema.Identity, items []any) *arrangement {
	a := &arrangement{
		items: items, first: map[string]int{}, last: map[string]int{}, place: map[int]int{},
		rank: map[int]int{}, before: map[int][]int{}, after: map[int][]int{}, earlier: map[int][]int{},
	}
	named := map[string]bool{}
	for _, one := range o.added {
		named[one.key] = true
	}
	for _, p := range o.positions {
		named[p.Item], named[p.Anchor] = true, true
	}
	for i, key := range podschema.KeysIn(id, items, named) {
		if _, again := a.first[key]; !again {
			a.first[key] = i
		}
		a.last[key] = i
	}
	for _, one := range o.added {
		if i, there := a.first[one.key]; there {
			a.place[i] = one.place
		}
	}
	a.position(o.positions)
	return a
}

// position takes in what the positions say.
func (a *arrangement) position(positions []Position) {
	neighbours := map[int]neighbour{} // by the item
	for _, p := range positions {
		item, there := a.first[p.Item]
		_, ours := a.place[item]
		if p.Kind == directive.First {
			if there && ours {
				a.putInFront(item, p.Required)
			}
			continue
		}
		anchor, has := a.last[p.Anchor]
		if p.Kind == directive.Before {
			anchor = a.first[p.Anchor]
		}
		if _, anchorOurs := a.place[anchor]; !there || !has || !ours && !anchorOurs {
			continue
		}
		if p.Kind == directive.Before {
			a.earlier[anchor] = append(a.earlier[anchor], item)
		} else {
			a.earlier[item] = append(a.earlier[item], anchor)
		}
		if _, again := neighbours[item]; ours && !again {
			neighbours[item] = neighbour{anchor, p.Kind}
		}
	}
	openRings(neighbours, len(a.items))
	for i := range a.items {
		n, beside := neighbours[i]
		if !beside {
			continue
		}
		a.rank[i] = besideAnother
		if n.side == directive.Before {
			a.before[n.of] = append(a.before[n.of], i)
		} else {
			a.after[n.of] = append(a.after[n.of], i)
		}
	}
	for _, beside := range []map[int][]int{a.before, a.after} {
		for _, items := range beside {
			a.byTemplate(items)
		}
	}
}

// neighbour is the item that another one stands beside, and on which side of it.
type neighbour struct {
	of   int
	side directive.Kind
}

// openRings takes one neighbour out of each ring, as where each of two items asks for the
// other one.
func openRings(neighbours map[int]neighbour, items int) {
	seen := map[int]int{} // by the item: the walk that came by, counted from 1
	for i := range items {
		at := i
		for seen[at] == 0 {
			seen[at] = i + 1
			n, beside := neighbours[at]
			if !beside {
				break
			}
			if seen[n.of] == i+1 {
				delete(neighbours, n.of)
				break
			}
			at = n.of
		}
	}
}

func (a *arrangement) putInFront(i int, required bool) {
	if required {
		a.rank[i] = 0
	} else if _, known := a.rank[i]; !known {
		a.rank[i] = 1
	}
}

// besideAnother is the rank of items that stand beside another one.
const besideAnother = -1

// byTemplate sorts added items by the places of their templates.
func (a *arrangement) byTemplate(items []int) []int {
	slices.SortStableFunc(items, func(i, j int) int { return cmp.Compare(a.place[i], a.place[j]) })
	return items
}

// roots returns the items that do not stand beside another one, in their order: those in
// front, and the others.
func (a *arrangement) roots() (front, others []int) {
	var ranked [2][]int
	var own, rest []int
	for i := range a.items {
		_, ours := a.place[i]
		rank, isRanked := a.rank[i]
		switch {
		case !ours:
			own = append(own, i)
		case !isRanked:
			rest = append(rest, i)
		case rank != besideAnother:
			ranked[rank] = append(ranked[rank], i)
		}
	}
	return slices.Concat(a.byTemplate(ranked[0]), a.byTemplate(ranked[1])), slices.Concat(own, a.byTemplate(rest))
}

// with adds items to found, each with those that stand beside it.
func (a *arrangement) with(found, items []int) []int {
	for _, i := range items {
		found = append(a.with(found, a.before[i]), i)
		found = a.with(found, a.after[i])
	}
	return found
}

// settled returns the items in the order found, but each behind those that a position puts in
// front of it, as far as the pod's own items keep their order.
func (a *arrangement) settled(found []int) []any {
	values, done := make([]any, 0, len(a.items)), make([]bool, len(a.items))
	own := slices.DeleteFunc(slices.Clone(found), func(i int) bool { _, ours := a.place[i]; return ours })
	// put adds an item. No item of the pod's own from the index end on may come with it.
	var put func(i, end int)
	put = func(i, end int) {
		if done[i] {
			return
		}
		done[i] = true
		_, ours := a.place[i]
		if !ours {
			for len(own) > 0 && own[0] < i {
				n := own[0]
				own = own[1:]
				put(n, end)
			}
			end = min(end, i)
		}
		for _, n := range a.earlier[i] {
			if _, ours := a.place[n]; ours || n < end {
				put(n, end)
			}
		}
		values = append(values, a.items[i])
	}
	for _, i := range found {
		put(i, len(a.items))
	}
	return values
}

// arranged returns the values of a fragment's items in their order, for a list that holds
// nothing else.
func arranged(id podschema.Identity, items []listItem) []any {
	var o order
	for _, it := range items {
		if p, ok := positionOf(id, it); ok {
			o.positions = append(o.positions, p)
		}
	}
	if len(o.positions) == 0 || o.cycle() != nil { // the reader reports a cycle
		return valuesOf(items)
	}
	o.put(&Fragment{}, items)
	return o.arrange(id, valuesOf(items))
}

// isArranged reports whether the items stand in their order already.
func (o *order) isArranged() bool {
	return len(o.added) == 0 || len(o.positions) == 0 && slices.IsSortedFunc(o.added, func(a, b added) int { return cmp.Compare(a.place, b.place) })
}

// arrangeLists brings the items that templates put into lists into their order.
func (m *merger) arrangeLists() {
	m.changes.walk(func(c *Change) {
		if o := c.order; o != nil && o.list != nil && !o.isArranged() {
			o.list.set(o.arrange(o.list.id, o.list.items))
		}
	})
}

// notePosition takes in what an item of a fragment's list says about its place.
func (r *reader) notePosition(id podschema.Identity, it listItem) {
	if p, ok := positionOf(id, it); ok {
		list := r.at()
		p.Template, p.Required, p.at = r.frag.Template, r.frag.Required, list.field(it.key)
		o := orderOf(list)
		o.positions = append(o.positions, p)
	}
}

// warnOfPositions tells of positions that move nothing: the neighbour is not there, or the pod
// has the item already, and it stays where the pod has it.
func (m *merger) warnOfPositions() {
	type unmet struct {
		Position
		why, sorted string
	}
	var all []unmet
	m.changes.walk(func(c *Change) {
		if len(c.Positions()) == 0 {
			return
		}
		t, v := m.wantedAt(c.order.positions[0].at.parent)
		items, ok := v.([]any)
		if !ok {
			return
		}
		list := c.order.indexed(t, items)
		for _, p := range c.order.positions {
			if why := list.unmet(p); why != "" {
				all = append(all, unmet{p, why, p.Template + " " + p.at.String()})
			}
		}
	})
	slices.SortFunc(all, func(a, b unmet) int { return cmp.Compare(a.sorted, b.sorted) })
	for _, one := range all {
		m.warnings.add(one.Template, one.at, one.why)
	}
}

// wantedAt returns what the wanted pod has at a place, and its type.
func (m *merger) wantedAt(at *place) (*podschema.Type, any) {
	if at.parent == nil {
		return podschema.Pod(), m.root.fields
	}
	t, v := m.wantedAt(at.parent)
	return inside(at.parent.find(), t, v)(at.segment)
}

// indexed is a list in its order: the indexes of the items that positions name, and how many
// items in front wanted to be first.
type indexed struct {
	index map[string]int
	front int
}

func (o *order) indexed(t *podschema.Type, items []any) indexed {
	id, _ := t.Identity()
	named, first := map[string]bool{}, map[string]bool{}
	for _, p := range o.positions {
		named[p.Item], named[p.Anchor] = true, true
		first[p.Item] = first[p.Item] || p.Kind == directive.First
	}
	list := indexed{index: podschema.IndexIn(id, items, named)}
	for i, key := range podschema.KeysIn(id, items, named) {
		if i != list.front || !first[key] {
			break
		}
		list.front++
	}
	return list
}

// unmet says why a position moves nothing, "" if it is met or not to be told.
func (l indexed) unmet(p Position) string {
	i, there := l.index[p.Item]
	anchor, hasAnchor := l.index[p.Anchor]
	change := p.at.find()
	switch {
	case !there:
	case change.ours():
		if p.Anchor != "" && !hasAnchor && slices.Contains(change.Templates, p.Template) {
			return fmt.Sprintf("the pod has no %s to put it %s, so it is placed as without $position", keyName(p.Anchor), p.side())
		}
	case p.Required || p.at.inWritten():
	case p.Kind == directive.First && i > l.front, hasAnchor && (i < anchor) == (p.Kind == directive.After):
		return "the pod already has it, so it stays at its place and $position has no effect"
	}
	return ""
}
