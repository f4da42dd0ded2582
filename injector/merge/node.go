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

	// names are the fields that an object sets, in order, and fields what it sets them to.
	names  []string
	fields []node
	// list is what a list of items with keys says, nil for any other value.
	list *keyedList
}

// keyedList is what a list of items with keys takes away, and what it sets: each key once.
type keyedList struct {
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

func (it listItem) first() bool { return it.says.Position.Kind == directive.First }

// field returns the node of a field, nil for none. It works on nil.
func (n *node) field(name string) *node {
	if n == nil {
		return nil
	}
	if i, ok := slices.BinarySearch(n.names, name); ok {
		return &n.fields[i]
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
	for i, name := range n.names {
		if n.fields[i].says.Delete {
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
func (n *node) setObject(t *podschema.Type, v map[string]any, says *directive.Directives, names []string, fields []node) {
	*n = node{says: says, names: names, fields: fields, value: v, same: len(names) == len(v), joins: says.Join != nil}
	whole, takes := t.IsWhole(), says.Delete || says.Replace || len(says.Unset) > 0
	n.blank = !t.IsOneAddition() && !takes
	n.adds = len(says.Unset) == 0 && (len(names) == 0 || whole)
	for i := range fields {
		f := &fields[i]
		n.blank = n.blank && f.blank
		n.joins = n.joins || f.joins
		n.adds = n.adds || f.adds && !whole
		n.same = n.same && f.same && !f.absent()
	}
	n.adds = n.adds && !says.Delete
	if n.same {
		return
	}
	value := make(map[string]any, len(names))
	for i, name := range names {
		if f := &fields[i]; !f.absent() {
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

// setKeyedList makes n the node of a list whose items have keys, all but markers.
func (n *node) setKeyedList(id podschema.Identity, v []any, items []node) {
	l := &keyedList{items: make([]listItem, 0, len(items))}
	*n = node{says: silent, value: v, same: true, blank: len(v) == 0, list: l}
	at := make(map[string]int, len(items))
	for i := range items {
		item := &items[i]
		n.joins = n.joins || item.joins
		if item.says.Marker {
			l.replaces, n.same = true, false
			continue
		}
		if item.addsNothing() {
			n.same = false
			continue
		}
		key, _ := id.Key(item.value)
		it := listItem{node: item, key: key}
		if item.says.Join != nil {
			it.texts = []directive.Join{*item.says.Join}
		}
		if item.says.Delete {
			l.deleted, n.same = append(l.deleted, it), false
			continue
		}
		n.adds = true
		if first, twice := at[key]; twice {
			l.items[first].texts = append(l.items[first].texts, it.texts...)
			n.same = false
			continue
		}
		at[key] = len(l.items)
		l.items = append(l.items, it)
		n.same = n.same && item.same
	}
	if n.same {
		return
	}
	for _, it := range l.items {
		if len(it.texts) > 1 {
			it.value = withField(it.value.(map[string]any), "value", joinedAlone(it.texts))
		}
	}
	n.value, _ = localOrder(id, l.items).arrange(id, l.items)
}
