package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
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
	root, err := applied(ctx, doc, ops)
	if err != nil {
		return nil, err
	}
	return root.settle().(map[string]any), nil
}

// applied returns a document with the operations in its nodes.
func applied(ctx context.Context, doc map[string]any, ops []Operation) (*node, error) {
	root := &node{value: doc}
	for i, o := range ops {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := root.apply(o, segments(o.op.Path)); err != nil {
			return nil, fmt.Errorf("applying operation %d, %s %s: %w", i, o.op.Operation, o.op.Path, err)
		}
	}
	return root, nil
}

// Check reports whether the operations turn original into exactly intended:
// the same keys, texts, order, and numbers digit by digit. An error means that
// the patch must not be sent, or is that of the context, which has ended.
func Check(ctx context.Context, original map[string]any, ops []Operation, intended map[string]any) error {
	root, err := applied(ctx, original, ops)
	if err != nil {
		return fmt.Errorf("checking the patch: %w", err)
	}
	if where, same := root.is(intended); !same {
		return fmt.Errorf("checking the patch: it does not give the intended pod at %q", where)
	}
	return nil
}

// node is a value of the document that an operation has reached. The document itself is not
// changed: what is in an object's kids, and in an array's list, counts in its place.
type node struct {
	value any
	// kids are the members of an object that an operation has reached, nil for one that it
	// removed. List is an array that it has reached.
	kids map[string]*node
	list []any
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
		kid, ok := n.kids[segment]
		if ok {
			if kid == nil {
				return nil, errNoValue
			}
			return kid, nil
		}
		value, ok := v[segment]
		if !ok {
			return nil, errNoValue
		}
		kid = &node{value: value}
		n.put(segment, kid)
		return kid, nil
	case []any:
		n.open()
		i, err := position(segment, len(n.list))
		if err != nil {
			return nil, err
		}
		kid, ok := n.list[i].(*node)
		if !ok {
			kid = &node{value: n.list[i]}
			n.list[i] = kid
		}
		return kid, nil
	default:
		return nil, errNoValue
	}
}

// open makes an array ready for changes.
func (n *node) open() {
	if n.list == nil {
		n.list = append([]any{}, n.value.([]any)...)
	}
}

// put makes a node the member of an object; nil removes the member.
func (n *node) put(key string, kid *node) {
	if n.kids == nil {
		n.kids = map[string]*node{}
	}
	n.kids[key] = kid
}

// settle returns the node's value with all changes in it.
func (n *node) settle() any {
	switch {
	case !n.changed:
	case n.list != nil:
		for i, item := range n.list {
			if kid, ok := item.(*node); ok {
				n.list[i] = kid.settle()
			}
		}
		n.value = slices.Clip(n.list)
	case n.kids != nil:
		object := maps.Clone(n.value.(map[string]any))
		if object == nil {
			object = map[string]any{}
		}
		for key, kid := range n.kids {
			if kid == nil {
				delete(object, key)
			} else {
				object[key] = kid.settle()
			}
		}
		n.value = object
	}
	n.kids, n.list, n.changed = nil, nil, false
	return n.value
}

// is compares what the node has come to with a value, without making it.
func (n *node) is(v any) (where string, same bool) {
	switch {
	case !n.changed:
		return compare(n.value, v)
	case n.list != nil:
		return n.isList(v)
	case n.kids != nil:
		return n.isObject(v)
	}
	return compare(n.value, v)
}

func (n *node) isObject(v any) (string, bool) {
	object, ok := v.(map[string]any)
	if !ok || object == nil {
		return "", false
	}
	have := n.value.(map[string]any)
	members := len(have)
	for key, kid := range n.kids {
		_, had := have[key]
		switch other, ok := object[key]; {
		case kid == nil:
			if had {
				members--
			}
			if ok {
				return "", false
			}
		case !ok:
			return "", false
		default:
			if !had {
				members++
			}
			if where, same := kid.is(other); !same {
				return "/" + escaper.Replace(key) + where, false
			}
		}
	}
	if members != len(object) {
		return "", false
	}
	for key, value := range have {
		if _, reached := n.kids[key]; reached {
			continue
		}
		other, ok := object[key]
		if !ok {
			return "/" + escaper.Replace(key), false
		}
		if where, same := compare(value, other); !same {
			return "/" + escaper.Replace(key) + where, false
		}
	}
	return "", true
}

// isList compares the list of an array with a value.
func (n *node) isList(v any) (where string, same bool) {
	list, ok := v.([]any)
	if !ok || list == nil || len(list) != len(n.list) {
		return "", false
	}
	for i, item := range list {
		where, same := "", false
		if kid, ok := n.list[i].(*node); ok {
			where, same = kid.is(item)
		} else {
			where, same = compare(n.list[i], item)
		}
		if !same {
			return "/" + strconv.Itoa(i) + where, false
		}
	}
	return "", true
}

func (n *node) applyToObject(o Operation, key string) error {
	kid, reached := n.kids[key]
	current, have := n.value.(map[string]any)[key]
	if reached {
		have = kid != nil
	}
	switch {
	case o.op.Operation == Add:
	case !have:
		return errNoValue
	case o.op.Operation == Test:
		if kid != nil {
			current = kid.settle()
		}
		return test(current, o.op.Value)
	}
	n.changed = true
	if o.op.Operation == Remove {
		n.put(key, nil)
		return nil
	}
	n.put(key, &node{value: o.op.Value})
	return nil
}

func (n *node) applyToArray(o Operation, segment string) error {
	n.open()
	length := len(n.list)
	if o.op.Operation == Add {
		i := length
		if segment != "-" {
			var err error
			if i, err = position(segment, length+1); err != nil {
				return err
			}
		}
		n.changed = true
		n.list = slices.Insert(n.list, i, o.op.Value)
		return nil
	}
	i, err := position(segment, length)
	if err != nil {
		return err
	}
	switch o.op.Operation {
	case Test:
		current := n.list[i]
		if kid, ok := current.(*node); ok {
			current = kid.settle()
		}
		return test(current, o.op.Value)
	case Replace:
		n.list[i] = o.op.Value
	default:
		n.list = slices.Delete(n.list, i, i+1)
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
