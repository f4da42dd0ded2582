package fragment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Kind is the way in which a value is merged.
type Kind int

const (
	// Value is merged as a whole: a scalar, a list whose items have no keys, or a value of an unknown type.
	Value Kind = iota
	// Object has fields. The merge visits them, unless the schema makes the object one value.
	Object
	// List has items with keys.
	List
)

// Node is one rendered value and its directives.
type Node struct {
	Kind Kind
	// Type is nil for an unknown field.
	Type *podschema.Type
	// Value is the JSON of a [Value].
	Value any
	// Fields are those of an [Object], by name.
	Fields []Field
	// Items are those of a [List], in the template's order. Two items have the same key only if both
	// join a text.
	Items []Item
	directive.Directives
}

// Field is a named part of an object.
type Field struct {
	Name string
	*Node
}

// Item is a part of a list. Key is its [podschema.Identity.Key].
type Item struct {
	Key string
	*Node
}

// Scalar returns the node of a scalar, or of another value that is merged as a whole.
func Scalar(t *podschema.Type, v any) *Node { return &Node{Type: t, Value: v} }

// Of returns the node of JSON without directives, nil for nil. It shares no memory with v. It leaves out items
// without a key, which rendering has refused.
func Of(t *podschema.Type, v any) *Node {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		if t == nil {
			return Scalar(t, copied(v))
		}
		n := &Node{Kind: Object, Type: t, Fields: make([]Field, 0, len(v))}
		for name, value := range v {
			if field := Of(t.Child(name), value); field != nil {
				n.Fields = append(n.Fields, Field{name, field})
			}
		}
		n.sort()
		return n
	case []any:
		id, keyed := t.Identity()
		if !keyed {
			return Scalar(t, copied(v))
		}
		n := &Node{Kind: List, Type: t, Items: make([]Item, 0, len(v))}
		for _, item := range v {
			if key, ok := id.Key(item); ok {
				n.Items = append(n.Items, Item{key, Of(id.Elem, item)})
			}
		}
		return n
	}
	return Scalar(t, v)
}

// copied copies JSON deeply.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, value := range v {
			object[name] = copied(value)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = copied(item)
		}
		return list
	}
	return v
}

func (n *Node) sort() {
	slices.SortFunc(n.Fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
}

// Field returns the field of that name, nil for none. It works on nil.
func (n *Node) Field(path ...string) *Node {
	for _, name := range path {
		if n == nil {
			return nil
		}
		i, ok := n.find(name)
		if !ok {
			return nil
		}
		n = n.Fields[i].Node
	}
	return n
}

func (n *Node) find(name string) (int, bool) {
	return slices.BinarySearchFunc(n.Fields, name, func(f Field, name string) int { return cmp.Compare(f.Name, name) })
}

// Set sets a field.
func (n *Node) Set(name string, v *Node) {
	i, ok := n.find(name)
	if ok {
		n.Fields[i].Node = v
		return
	}
	n.Fields = slices.Insert(n.Fields, i, Field{name, v})
}

// Remove removes a field.
func (n *Node) Remove(name string) {
	if i, ok := n.find(name); ok {
		n.Fields = slices.Delete(n.Fields, i, i+1)
	}
}

// Enter returns the object in a field. It creates the object if there is none.
func (n *Node) Enter(name string) *Node {
	if field := n.Field(name); field != nil {
		return field
	}
	field := &Node{Kind: Object, Type: n.Type.Child(name)}
	if t := field.Type; t != nil && t.Kind() == podschema.List {
		field.Kind = List
	}
	n.Set(name, field)
	return field
}

// List returns the items of a list. It works on nil.
func (n *Node) List() []Item {
	if n == nil {
		return nil
	}
	return n.Items
}

// Item returns the first item of a key, nil for none. It works on nil.
func (n *Node) Item(key string) *Node {
	if n == nil {
		return nil
	}
	if i := slices.IndexFunc(n.Items, func(it Item) bool { return it.Key == key }); i >= 0 {
		return n.Items[i].Node
	}
	return nil
}

// Absent reports whether the node adds no value anywhere: a deletion, or an empty text to join.
func (n *Node) Absent() bool { return n.Delete || n.Join != nil && n.Join.Text == "" }

// IsBlank reports whether the node changes no pod. Rendering leaves empty objects and lists if conditions are
// false.
func (n *Node) IsBlank() bool {
	if n == nil {
		return true
	}
	if n.Delete || n.Replace || len(n.Unset) > 0 {
		return false
	}
	switch n.Kind {
	case Object:
		return !n.Type.IsOneAddition() && !slices.ContainsFunc(n.Fields, func(f Field) bool { return !f.IsBlank() })
	case List:
		return len(n.Items) == 0
	}
	return n.Value == nil || n.Absent()
}

// Adds reports whether the node adds a value to an empty place.
func (n *Node) Adds() bool {
	switch {
	case n.IsBlank() || n.Absent():
		return false
	case n.Kind == Object:
		return len(n.Unset) == 0 && (len(n.Fields) == 0 || n.Type.IsWhole() || slices.ContainsFunc(n.Fields, func(f Field) bool { return f.Adds() }))
	case n.Kind == List:
		return slices.ContainsFunc(n.Items, func(it Item) bool { return !it.Absent() })
	}
	return true
}

// IsSidecar reports whether an item of a list of containers adds a container. Any other item extends the pod's
// container of its name.
func (n *Node) IsSidecar() bool { return n.Field("image") != nil }

// Combine adds the fields and items of an object to n. It returns an error if they have different values; where
// names the place in the error. Two items that join texts to one variable both stay.
func (n *Node) Combine(from *Node, where string) error {
	for _, f := range from.Fields {
		there := n.Field(f.Name)
		where := where + ", " + f.Name
		switch {
		case there == nil:
			n.Set(f.Name, f.Node)
		case reflect.DeepEqual(there, f.Node):
		case there.Kind == Object && f.Kind == Object:
			if err := there.Combine(f.Node, where); err != nil {
				return err
			}
		case there.Kind != List || f.Kind != List || !there.add(f.Items):
			return fmt.Errorf("give different values to %s", where)
		}
	}
	return nil
}

// add adds the items of another list. It reports false if an item of the same key differs.
func (n *Node) add(items []Item) bool {
	byKey := make(map[string]*Node, len(n.Items))
	for _, it := range n.Items {
		byKey[it.Key] = it.Node
	}
	for _, it := range items {
		switch there := byKey[it.Key]; {
		case there == nil, there.Join != nil && it.Join != nil && !reflect.DeepEqual(there, it.Node):
			n.Items = append(n.Items, it)
			byKey[it.Key] = it.Node
		case !reflect.DeepEqual(there, it.Node):
			return false
		}
	}
	return true
}

// JSON returns the value for a pod that has none at that place: without directives, and with the items of lists
// at their positions. It returns nil for no value.
func (n *Node) JSON() any {
	switch {
	case n == nil || n.Absent():
		return nil
	case n.Kind == Object:
		object := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			if v := f.JSON(); v != nil {
				object[f.Name] = v
			}
		}
		return object
	case n.Kind == List:
		id, _ := n.Type.Identity()
		list, _ := Insert(id, []any{}, 0, n.Items)
		return list
	}
	return n.Value
}
