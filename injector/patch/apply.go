package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
)

var errNoValue = errors.New("there is nothing there")

// Apply returns doc after the operations, one after the other, as RFC 6902
// defines them. Doc is not modified. Parts that an operation changes are copied
// once; all other parts are shared with the result. The error names the first
// operation that does not apply, or is that of the context, which has ended.
//
// It accepts no more than gopkg.in/evanphx/json-patch.v4, with which
// kube-apiserver applies patches, and gives the same document; that library's
// extensions (negative indexes, replacing a key that is missing) are refused.
func Apply(ctx context.Context, doc map[string]any, ops []Operation) (map[string]any, error) {
	root := &node{value: doc}
	for i, o := range ops {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := root.apply(o, segments(o.op.Path)); err != nil {
			return nil, fmt.Errorf("applying operation %d, %s %s: %w", i, o.op.Operation, o.op.Path, err)
		}
	}
	return root.settle().(map[string]any), nil
}

// Check reports whether the operations turn original into exactly intended:
// the same keys, texts, order, and numbers digit by digit. An error means that
// the patch must not be sent, or is that of the context, which has ended.
func Check(ctx context.Context, original map[string]any, ops []Operation, intended map[string]any) error {
	got, err := Apply(ctx, original, ops)
	if err != nil {
		return fmt.Errorf("checking the patch: %w", err)
	}
	if where, same := compare(got, intended); !same {
		return fmt.Errorf("checking the patch: it does not give the intended pod at %q", where)
	}
	return nil
}

// node is a value of the document that an operation has reached. What it holds is
// copied once, however many operations change it.
type node struct {
	// value is the document's, or with owned this node's own. Kids are reached values
	// of an object, and list is a reached array: what is in them counts.
	value any
	owned bool
	kids  map[string]*node
	list  *splice
	// changed reports whether an operation changed the value or one in it.
	changed bool
}

func (n *node) apply(o Operation, path []string) error {
	if len(path) > 1 {
		kid, err := n.kid(path[0])
		if err != nil {
			return fmt.Errorf("%q: %w", path[0], err)
		}
		err = kid.apply(o, path[1:])
		n.changed = n.changed || kid.changed
		return err
	}
	switch n.value.(type) {
	case map[string]any:
		return n.applyToObject(o, path[0])
	case []any:
		return n.applyToArray(o, path[0])
	default:
		return fmt.Errorf("%q: its parent is neither object nor array", path[0])
	}
}

// kid returns the node of a value in this one.
func (n *node) kid(segment string) (*node, error) {
	switch v := n.value.(type) {
	case map[string]any:
		if kid, ok := n.kids[segment]; ok {
			return kid, nil
		}
		value, ok := v[segment]
		if !ok {
			return nil, errNoValue
		}
		if n.kids == nil {
			n.kids = map[string]*node{}
		}
		kid := &node{value: value}
		n.kids[segment] = kid
		return kid, nil
	case []any:
		n.open()
		i, err := position(segment, n.list.length())
		if err != nil {
			return nil, err
		}
		kid, ok := n.list.at(i).(*node)
		if !ok {
			kid = &node{value: n.list.at(i)}
			n.list.set(i, kid)
		}
		return kid, nil
	default:
		return nil, errNoValue
	}
}

// open makes an array ready for changes.
func (n *node) open() {
	if n.list == nil {
		n.list = newSplice(n.value.([]any))
	}
}

// object returns an object's own copy.
func (n *node) object() map[string]any {
	if !n.owned {
		c := maps.Clone(n.value.(map[string]any))
		if c == nil {
			c = map[string]any{}
		}
		n.value, n.owned = c, true
	}
	return n.value.(map[string]any)
}

// settle returns the node's value with all changes in it.
func (n *node) settle() any {
	if !n.changed {
		n.kids, n.list = nil, nil
		return n.value
	}
	for key, kid := range n.kids {
		if kid.changed {
			n.object()[key] = kid.settle()
		}
	}
	if n.list != nil {
		items := n.list.all()
		for i, item := range items {
			if kid, ok := item.(*node); ok {
				items[i] = kid.settle()
			}
		}
		n.value = items
	}
	n.kids, n.list = nil, nil
	return n.value
}

func (n *node) applyToObject(o Operation, key string) error {
	current, ok := n.value.(map[string]any)[key]
	switch {
	case o.op.Operation == Add:
	case !ok:
		return errNoValue
	case o.op.Operation == Test:
		if kid := n.kids[key]; kid != nil {
			current = kid.settle()
		}
		return test(current, o.op.Value)
	}
	n.changed = true
	delete(n.kids, key)
	if o.op.Operation == Remove {
		delete(n.object(), key)
		return nil
	}
	n.object()[key] = o.op.Value
	return nil
}

func (n *node) applyToArray(o Operation, segment string) error {
	n.open()
	length := n.list.length()
	if o.op.Operation == Add {
		i := length
		if segment != "-" {
			var err error
			if i, err = position(segment, length+1); err != nil {
				return err
			}
		}
		n.changed = true
		n.list.insert(i, o.op.Value)
		return nil
	}
	i, err := position(segment, length)
	if err != nil {
		return err
	}
	switch o.op.Operation {
	case Test:
		current := n.list.at(i)
		if kid, ok := current.(*node); ok {
			current = kid.settle()
		}
		return test(current, o.op.Value)
	case Replace:
		n.list.set(i, o.op.Value)
	default:
		n.list.remove(i)
	}
	n.changed = true
	return nil
}

func test(current, want any) error {
	if where, same := compare(current, want); !same {
		return fmt.Errorf("test failed at %q", where)
	}
	return nil
}

// compare returns the pointer to the first difference. It does not descend into
// parts that both share, which makes it cheap to check a patch of a large pod.
func compare(a, b any) (where string, same bool) {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return "", false
		}
		return compareObjects(a, b)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return "", false
		}
		return compareArrays(a, b)
	case nil, bool, string, json.Number:
		return "", a == b
	default:
		return "", false
	}
}

func compareObjects(a, b map[string]any) (string, bool) {
	if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
		return "", true
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok {
			return "/" + escaper.Replace(key), false
		}
		if where, same := compare(value, other); !same {
			return "/" + escaper.Replace(key) + where, false
		}
	}
	return "", true
}

func compareArrays(a, b []any) (string, bool) {
	if len(a) > 0 && &a[0] == &b[0] {
		return "", true
	}
	for i := range a {
		if where, same := compare(a[i], b[i]); !same {
			return fmt.Sprintf("/%d%s", i, where), false
		}
	}
	return "", true
}
