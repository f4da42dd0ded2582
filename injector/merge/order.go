package merge

import (
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
	wishes []wish
	anchor map[string]wish            // an item's own wish, the first template's
	before map[string]map[string]bool // before[x][y]: x stands before y, directly or not
	firsts []First
	// How many items the templates have put in front: those that are required,
	// and the others behind them.
	required, others int
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
func wishOf(id podschema.Identity, key string, item any) (wish, bool) {
	position := directive.PositionOf(item)
	if position.Anchor == "" || id.Set() {
		return wish{}, false
	}
	w := wish{item: key, after: position.Kind == directive.After}
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

// inserted notes an item that was put in at index i.
func (o *order) inserted(required bool, i int, first bool) {
	front := o.front(required)
	switch {
	case first:
		o.put(required, i+1-front)
	case i < front:
		o.put(required, 1)
	}
}

// add takes a wish in, or returns an error that tells the cycle it would close.
func (o *order) add(w wish) error {
	if o.anchor == nil {
		o.anchor, o.before = map[string]wish{}, map[string]map[string]bool{}
	}
	from, to := w.edge()
	if from == to || o.before[to][from] {
		return fmt.Errorf("%w: %s", ErrPositions, o.chain(w))
	}
	o.wishes = append(o.wishes, w)
	if _, ok := o.anchor[w.item]; !ok {
		o.anchor[w.item] = w
	}
	earlier, later := []string{from}, []string{to}
	for x, behind := range o.before {
		if behind[from] {
			earlier = append(earlier, x)
		}
	}
	for y := range o.before[to] {
		later = append(later, y)
	}
	for _, x := range earlier {
		if o.before[x] == nil {
			o.before[x] = map[string]bool{}
		}
		for _, y := range later {
			o.before[x][y] = true
		}
	}
	return nil
}

// chain tells the wishes that lead from w's later item to its earlier one, and
// w itself.
func (o *order) chain(w wish) string {
	from, to := w.edge()
	texts := []string{w.String()}
	for at := to; at != from; {
		next := slices.IndexFunc(o.wishes, func(v wish) bool {
			f, t := v.edge()
			return f == at && (t == from || o.before[t][from])
		})
		if next < 0 {
			break
		}
		texts = append(texts, o.wishes[next].String())
		_, at = o.wishes[next].edge()
	}
	return strings.Join(texts, ", ")
}

// index returns where in items an item goes that is not among them.
func (o *order) index(id podschema.Identity, items []any, it listItem, front int) int {
	low, high, at := 0, len(items), -1
	own, anchored := wish{}, false
	if o != nil && len(o.wishes) > 0 {
		own, anchored = o.anchor[it.key]
		for i, item := range items {
			key, ok := id.Key(item)
			switch {
			case !ok:
				continue
			case o.before[key][it.key]:
				low = max(low, i+1)
			case o.before[it.key][key]:
				high = min(high, i)
			}
			if anchored && key == own.anchor && at < 0 {
				at = i
			}
		}
	}
	want := len(items)
	switch {
	case at >= 0 && !own.after:
		want = at
	case at >= 0:
		want = at + 1
		for want < len(items) && o.follows(id, items[want], own.anchor) {
			want++
		}
	case it.first:
		want = front
	}
	if low > high {
		return want // the pod's own items stand otherwise
	}
	return min(max(want, low), high)
}

// follows reports whether an item asked to stand after the anchor, too: then it
// came first.
func (o *order) follows(id podschema.Identity, item any, anchor string) bool {
	key, _ := id.Key(item)
	w, ok := o.anchor[key]
	return ok && w.after && w.anchor == anchor
}

// arrange returns the values of items in their order, and how many of them
// wanted to be first.
func (o *order) arrange(id podschema.Identity, items []listItem) (values []any, front int) {
	if o == nil || len(o.wishes) == 0 {
		for _, it := range items {
			if it.first {
				values = append(values, it.value)
			}
		}
		front = len(values)
		for _, it := range items {
			if !it.first {
				values = append(values, it.value)
			}
		}
		if values == nil {
			values = []any{}
		}
		return values, front
	}
	values = make([]any, 0, len(items))
	for _, it := range items {
		i := o.index(id, values, it, front)
		values = slices.Insert(values, i, it.value)
		if it.first || i < front {
			front++
		}
	}
	return values, front
}

// localOrder is the order that the items of one list ask for among themselves.
// A cycle was reported when the fragment was read.
func localOrder(id podschema.Identity, v []any) *order {
	var o *order
	for _, item := range v {
		if directive.PositionOf(item).Anchor == "" {
			continue
		}
		key, _ := id.Key(item)
		if w, ok := wishOf(id, key, item); ok {
			if o == nil {
				o = &order{}
			}
			_ = o.add(w)
		}
	}
	return o
}

// notePosition takes in what an item of a fragment's list says about its place.
func (c checker) notePosition(id podschema.Identity, list *place, key string, item any) error {
	switch position := directive.PositionOf(item); position.Kind {
	case directive.First:
		o := orderOf(list)
		o.firsts = append(o.firsts, First{Template: c.frag.Template, Item: key, Required: c.frag.Required})
	case directive.Before, directive.After:
		if w, ok := wishOf(id, key, item); ok {
			w.template, w.at = c.frag.Template, list.field(key)
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
	i := m.list.index[it.key]
	switch position := directive.PositionOf(it.raw); position.Kind {
	case directive.First:
		if i <= orderOf(at.parent).front(false) {
			return
		}
	case directive.Before, directive.After:
		w, _ := wishOf(m.list.id, it.key, it.raw)
		j, have := m.list.index[w.anchor]
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
	var wishes []wish
	m.changes.walk(func(c *Change) {
		if c.order != nil {
			wishes = append(wishes, c.order.wishes...)
		}
	})
	slices.SortFunc(wishes, func(a, b wish) int {
		return strings.Compare(a.template+" "+a.at.String(), b.template+" "+b.at.String())
	})
	for _, w := range wishes {
		if !w.at.find().ours() || !slices.Contains(w.at.find().Templates, w.template) {
			continue
		}
		v, t := Find(m.root.fields, w.at.parent.path())
		id, _ := t.Identity()
		if items, _ := v.([]any); items == nil || hasKey(id, items, w.anchor) {
			continue
		}
		m.warnings.add(w.template, w.at, fmt.Sprintf("there is no %s for it to stand %s, so it stands where it would without $position", keyName(w.anchor), w.side()))
	}
}

func hasKey(id podschema.Identity, items []any, key string) bool {
	return slices.ContainsFunc(items, func(item any) bool {
		k, ok := id.Key(item)
		return ok && k == key
	})
}

// Find returns what a pod has at a keyed path, nil for nothing, and its type.
func Find(pod map[string]any, path []string) (v any, t *podschema.Type) {
	v, t = pod, podschema.Pod()
	for _, segment := range path {
		switch w := v.(type) {
		case map[string]any:
			v, t = w[segment], t.Child(segment)
		case []any:
			id, keyed := t.Identity()
			i, ok := IndexOf(id, w)[segment]
			if !keyed || !ok {
				return nil, nil
			}
			v, t = w[i], id.Elem
		default:
			return nil, nil
		}
	}
	return v, t
}
