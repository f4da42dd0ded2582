package merge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// ErrPositions is the error inside a [FragmentError] when $position asks for an
// order that there is not.
var ErrPositions = errors.New("$position makes a cycle")

// order is what all templates of a run say about one list with
// $position: {before: NAME} and {after: NAME}.
type order struct {
	wishes []wish
	anchor map[string]wish            // an item's own wish, the first template's
	before map[string]map[string]bool // before[x][y]: x stands before y, directly or not
}

// wish says that item stands on a side of anchor, both by their keys.
type wish struct {
	template, list, item, anchor string
	after                        bool
}

func (w wish) String() string {
	side := "before"
	if w.after {
		side = "after"
	}
	return fmt.Sprintf("%s stands %s %s (template %s)", keyName(w.item), side, keyName(w.anchor), w.template)
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
func wishOf(id identity, key string, item any) (wish, bool) {
	object, _ := item.(map[string]any)
	position, ok := object[positionKey].(map[string]any)
	if !ok || id.set() || len(id.keys) == 0 {
		return wish{}, false
	}
	w := wish{item: key, after: position[after] != nil}
	name := position[before]
	if w.after {
		name = position[after]
	}
	w.anchor, ok = id.key(map[string]any{id.keys[0].Name: name})
	if !ok {
		// The other fields of the key have no default: nothing is named by one.
		w.anchor = fmt.Sprintf("%s=%v", id.keys[0].Name, name)
	}
	return w, true
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

// index returns where in items an item goes that is not among them. What
// contradicts is no template's doing: somebody moved items since.
func (o *order) index(id identity, items []any, it listItem, front int) int {
	low, high, at := 0, len(items), -1
	own, anchored := wish{}, false
	if o != nil {
		own, anchored = o.anchor[it.key]
		for i, item := range items {
			key, ok := id.key(item)
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
		return want
	}
	return min(max(want, low), high)
}

// follows reports whether an item asked to stand after the anchor, too: then it
// came first.
func (o *order) follows(id identity, item any, anchor string) bool {
	key, _ := id.key(item)
	w, ok := o.anchor[key]
	return ok && w.after && w.anchor == anchor
}

// arrange returns the values of items in their order, and how many of them
// wanted to be first.
func (o *order) arrange(id identity, items []listItem) (values []any, front int) {
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

// notePosition takes in what an item of a fragment's list at path says about
// its neighbour.
func (m *merger) notePosition(id identity, path, key string, item any) error {
	w, ok := wishOf(id, key, item)
	if !ok {
		return nil
	}
	w.template, w.list = m.frag.Template, path
	if m.orders[path] == nil {
		m.orders[path] = &order{}
	}
	return m.orders[path].add(w)
}

// warnOfAbsentAnchors tells of items that a template put in, and whose
// neighbour is not there.
func (m *merger) warnOfAbsentAnchors() {
	var wishes []wish
	for _, order := range m.orders {
		wishes = append(wishes, order.wishes...)
	}
	slices.SortFunc(wishes, func(a, b wish) int {
		return strings.Compare(a.template+" "+a.list+" "+a.item, b.template+" "+b.list+" "+b.item)
	})
	for _, w := range wishes {
		path := join(w.list, w.item)
		if !m.records[w.template].covers(path) || !m.has(path) || m.has(join(w.list, w.anchor)) {
			continue
		}
		side := "before"
		if w.after {
			side = "after"
		}
		m.warnings = append(m.warnings, warning{template: w.template, path: path,
			what: fmt.Sprintf("there is no %s for it to stand %s, so it stands where it would without $position", keyName(w.anchor), side)})
	}
}

// covers reports whether the template put in what is at path, or something
// around it.
func (r *record) covers(path string) bool {
	for ; r != nil && path != ""; path = parent(path) {
		if r.lists(path) {
			return true
		}
	}
	return false
}

// has reports whether the pod as it is now has something at a keyed path.
func (m *merger) has(path string) bool {
	v, _ := m.find(m.root.fields, path)
	return v != nil
}

// find returns what a pod has at a keyed path, nil for nothing, and its type.
func (s *shapes) find(pod map[string]any, path string) (v any, t *podschema.Type) {
	v, t, _, _ = s.lookUp(pod, path, indexes{})
	return v, t
}

// indexes has, by a list's path, where the first item of each key is, so that many
// look-ups in one pod that nobody changes meanwhile cost one walk of each list.
type indexes map[string]map[string]int

func (ix indexes) of(path string, items []any, id identity) map[string]int {
	index, ok := ix[path]
	if !ok {
		index = indexOf(items, id)
		ix[path] = index
	}
	return index
}

// lookUp is find that tells whether the pod has anything there, null included,
// and whether it is a field of an object that the pod has.
func (s *shapes) lookUp(pod map[string]any, path string, found indexes) (v any, t *podschema.Type, have, field bool) {
	v, t, have = pod, s.pod, true
	end := 0
	for _, escaped := range strings.Split(path, "/")[1:] {
		around := path[:end]
		end += len("/") + len(escaped)
		segment := segmentUnescaper.Replace(escaped)
		switch w := v.(type) {
		case map[string]any:
			field = true
			v, have = w[segment]
			t = child(t, segment)
		case []any:
			field = false
			id, keyed := s.identityOf(t)
			if !keyed {
				return nil, nil, false, false
			}
			i, ok := found.of(around, w, id)[segment]
			if !ok {
				return nil, nil, false, false
			}
			v, t = w[i], id.elem
		default:
			return nil, nil, false, false
		}
	}
	return v, t, have, field
}

// localOrder is the order that the items of one list ask for among themselves.
// A cycle was reported when the fragment was read.
func localOrder(id identity, v []any) *order {
	var o *order
	for _, item := range v {
		key, _ := id.key(item)
		if w, ok := wishOf(id, key, item); ok {
			if o == nil {
				o = &order{}
			}
			_ = o.add(w)
		}
	}
	return o
}

// cleanList returns a list of a fragment without directives, in the order that
// they ask for.
func (m *merger) cleanList(t *podschema.Type, v []any) []any {
	id, keyed := m.identityOf(t)
	var elem *podschema.Type
	if t != nil && t.Kind() == podschema.List {
		elem = t.Elem()
	}
	items := make([]listItem, 0, len(v))
	seen := map[string]bool{}
	for _, item := range v {
		if isDelete(item) || isMarker(item) {
			continue
		}
		it := listItem{value: m.clean(elem, item), first: isFirst(item)}
		if key, ok := id.key(it.value); keyed && ok {
			if seen[key] && id.set() {
				continue
			}
			it.key, seen[key] = key, true
		}
		items = append(items, it)
	}
	var o *order
	if keyed {
		o = localOrder(id, v)
	}
	arranged, _ := o.arrange(id, items)
	return arranged
}
