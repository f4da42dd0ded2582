package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// node is a value of a fragment, read once. It says what the fragment wants in a place, and
// what its directives say about it. Nobody changes a node.
type node struct {
	// says is what the value's own directives say.
	says directive.Directives
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

	// fields has what an object sets, and names are the names of fields in order.
	fields map[string]*node
	names  []string

	// deleted and items are what a list of items with keys takes away, and what it sets: each
	// key once. replaces: the list takes the place of the pod's.
	deleted, items []listItem
	replaces       bool
}

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
	return n.fields[name]
}

// setsField reports whether an object sets a field to something that stays.
func (n *node) setsField(name string) bool {
	f := n.field(name)
	return f != nil && f.adds && !f.blank
}

// removals returns the fields that an object takes away, in order.
func (n *node) removals() []string {
	names := slices.Clone(n.says.Unset)
	for _, name := range n.names {
		if n.fields[name].says.Delete {
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

// scalarNode returns the node of a scalar, with the directives in its place.
func scalarNode(v any, says directive.Directives) *node {
	n := &node{says: says, value: v, same: true, blank: v == nil}
	n.joins = says.Join != nil
	n.adds = v != nil && !n.addsNothing()
	return n
}

// objectNode returns the node of an object of type t with the nodes of its fields.
func objectNode(t *podschema.Type, v map[string]any, says directive.Directives, fields map[string]*node, names []string) *node {
	n := &node{says: says, fields: fields, names: names, same: len(names) == len(v), blank: !t.IsOneAddition(), joins: says.Join != nil}
	takes := says.Delete || says.Replace || len(says.Unset) > 0
	n.blank = n.blank && !takes
	n.adds = len(says.Unset) == 0 && (len(names) == 0 || t.IsWhole())
	for _, f := range fields {
		n.blank = n.blank && f.blank
		n.joins = n.joins || f.joins
		n.adds = n.adds || f.adds && !t.IsWhole()
		n.same = n.same && f.same && !f.absent()
	}
	n.adds = n.adds && !says.Delete
	if n.value = v; n.same {
		return n
	}
	value := make(map[string]any, len(names))
	for _, name := range names {
		if f := fields[name]; !f.absent() {
			value[name] = f.value
		}
	}
	n.value = value
	return n
}

// listNode returns the node of a list whose items have no keys.
func listNode(v []any, all []*node) *node {
	n := &node{same: true, adds: true}
	for _, item := range all {
		n.same = n.same && item.same
	}
	if n.value = v; n.same {
		return n
	}
	value := make([]any, len(all))
	for i, item := range all {
		value[i] = item.value
	}
	n.value = value
	return n
}

// keyedListNode returns the node of a list whose items have keys, which are not empty but for
// markers.
func keyedListNode(id podschema.Identity, v []any, all []*node) *node {
	n := &node{same: true, blank: len(v) == 0}
	at := map[string]int{}
	for _, item := range all {
		n.joins = n.joins || item.joins
		if item.says.Marker {
			n.replaces, n.same = true, false
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
			n.deleted, n.same = append(n.deleted, it), false
			continue
		}
		n.adds = true
		if i, twice := at[key]; twice {
			n.items[i].texts = append(n.items[i].texts, it.texts...)
			n.same = false
			continue
		}
		at[key] = len(n.items)
		n.items = append(n.items, it)
		n.same = n.same && item.same
	}
	for i := range n.items {
		if it := &n.items[i]; len(it.texts) > 1 {
			joined := *it.node
			joined.value = withField(joined.value.(map[string]any), "value", joinedAlone(it.texts))
			it.node = &joined
		}
	}
	if n.value = v; n.same {
		return n
	}
	n.value, _ = localOrder(id, n.items).arrange(id, n.items)
	return n
}
