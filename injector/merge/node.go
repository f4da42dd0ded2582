package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// node is a value of a fragment, read once. It says what the fragment wants in a place, and
// what its directives say about it. Nobody changes a node that was read.
type node struct {
	// says is what the value's own directives say.
	says *directive.Directives
	// value is the value as a pod has it: without directives and nulls, its lists in the order
	// that $position asks for. It is what the fragment has where that is the same.
	value any
	// same: value is the very value of the fragment.
	same bool
	// adds: merged into nothing, the value puts something there.
	adds bool
	// blank: the value cannot change anything. Rendering leaves empty maps and lists behind
	// where conditions were false.
	blank bool
	// joins: a text is joined to the value, or to something in it.
	joins bool
	// placed: the value wants to stand somewhere in its list, or something in it does.
	placed bool

	// fields are what an object sets, nil for any other value.
	fields *fields
	// list is what a list of items with keys says, nil for any other value.
	list *keyedList
}

// fields are the fields that an object sets, by their names in order.
type fields struct {
	names []string
	nodes []node
}

// keyedList is what a list of items with keys takes away, and what it sets: each key once.
type keyedList struct {
	typ            *podschema.Type
	deleted, items []listItem
	// replaces: the list takes the place of the pod's.
	replaces bool
}

// silent is what a value without directives says.
var silent = &directive.Directives{}

// listItem is a fragment's item of a list with keys. Items of sets have no node's fields.
type listItem struct {
	*node
	key string
	// texts are joined to a variable: the item's own, and those of later items of its key.
	texts []directive.Join
}

// field returns the node of a field, nil for none. It works on nil.
func (n *node) field(name string) *node {
	if n == nil || n.fields == nil {
		return nil
	}
	if i, ok := slices.BinarySearch(n.fields.names, name); ok {
		return &n.fields.nodes[i]
	}
	return nil
}

// setsField reports whether an object sets a field to something that stays.
func (n *node) setsField(name string) bool {
	f := n.field(name)
	return f != nil && f.adds && !f.blank
}

// removals returns the fields that an object takes away, in order.
func (n *node) removals() []string {
	names := slices.Clone(n.says.Unset)
	for i, name := range n.fields.names {
		if n.fields.nodes[i].says.Delete {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// addsNothing reports whether the value is a text to join that is empty.
func (n *node) addsNothing() bool { return n.says.Join != nil && n.says.Join.Text == "" }

// absent reports whether a pod has nothing of the value, wherever it is put.
func (n *node) absent() bool { return n.says.Delete || n.addsNothing() }

// setScalar makes n the node of a scalar, with the directives in its place.
func (n *node) setScalar(v any, says *directive.Directives) {
	*n = node{says: says, value: v, same: says == silent, blank: v == nil, joins: says.Join != nil}
	n.adds = v != nil && !n.addsNothing()
}

// setObject makes n the node of an object of type t with the nodes of its fields.
func (n *node) setObject(t *podschema.Type, v map[string]any, says *directive.Directives, names []string, nodes []node) {
	*n = node{says: says, fields: &fields{names, nodes}, value: v, same: len(names) == len(v), joins: says.Join != nil, placed: says.Position.Kind != directive.Default}
	whole, takes := t.IsWhole(), says.Delete || says.Replace || len(says.Unset) > 0
	n.blank = !t.IsOneAddition() && !takes
	n.adds = len(says.Unset) == 0 && (len(names) == 0 || whole)
	for i := range nodes {
		f := &nodes[i]
		n.blank = n.blank && f.blank
		n.joins = n.joins || f.joins
		n.placed = n.placed || f.placed
		n.adds = n.adds || f.adds && !whole
		n.same = n.same && f.same && !f.absent()
	}
	n.adds = n.adds && !says.Delete
	if n.same {
		return
	}
	value := make(map[string]any, len(names))
	for i, name := range names {
		if f := &nodes[i]; !f.absent() {
			value[name] = f.value
		}
	}
	n.value = value
}

// setList makes n the node of a list whose items have no keys.
func (n *node) setList(v []any, items []node) {
	*n = node{says: silent, value: v, same: true, adds: true}
	for i := range items {
		n.same = n.same && items[i].same
	}
	if n.same {
		return
	}
	value := make([]any, len(items))
	for i := range items {
		value[i] = items[i].value
	}
	n.value = value
}

// setKeyedList makes n the node of a list whose items have keys.
func (n *node) setKeyedList(v []any, l *listReader) {
	list := l.keyedList // without what was only for reading
	*n = node{says: silent, value: v, same: l.same && !l.replaces, blank: len(v) == 0, joins: l.joins, placed: l.placed, adds: len(l.items) > 0, list: &list}
	if n.same {
		return
	}
	for _, it := range l.items {
		if len(it.texts) > 1 {
			it.value = withField(it.value.(map[string]any), "value", joinedAlone(it.texts))
		}
	}
	n.value = arranged(l.id, l.items)
}

// listReader gathers the items of a list that has keys.
type listReader struct {
	keyedList
	id   podschema.Identity
	uses map[string]keyUse
	// same: the list is what the fragment has. joins, placed: as of its node.
	same, joins, placed bool
}

// keyUse is the first item of a key.
type keyUse struct {
	// item is its index, -1 if it sets nothing.
	item int
	// joins: it joins a text.
	joins bool
}

func newListReader(t *podschema.Type, id podschema.Identity, items int) *listReader {
	return &listReader{keyedList: keyedList{typ: t, items: make([]listItem, 0, items)}, id: id, uses: make(map[string]keyUse, items), same: true}
}

// add adds the next item. It reports false if the list has another one of its key: only
// sets may, and variables to which both join a text.
func (l *listReader) add(key string, n *node) bool {
	l.same, l.joins = l.same && n.same && !n.absent(), l.joins || n.joins
	l.placed = l.placed || n.placed
	if !n.same && l.id.Set() {
		key, _ = l.id.Key(n.value)
	}
	it, joins := listItem{node: n, key: key}, n.says.Join != nil
	if joins && !n.addsNothing() {
		it.texts = []directive.Join{*n.says.Join}
	}
	first, twice := l.uses[key]
	switch {
	case twice && !(first.joins && joins):
		l.same = false
		return l.id.Set()
	case n.absent() && twice: // one more text that is empty
	case n.absent():
		if l.uses[key] = (keyUse{item: -1, joins: joins}); n.says.Delete {
			l.deleted = append(l.deleted, it)
		}
	case twice && first.item >= 0:
		l.items[first.item].texts = append(l.items[first.item].texts, it.texts...)
		l.same = false
	default:
		l.uses[key] = keyUse{item: len(l.items), joins: joins}
		l.items = append(l.items, it)
	}
	return true
}
