package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

var errNoValue = errors.New("there is nothing there")

// Apply returns doc after the operations, one after the other, as RFC 6902
// defines them. Doc is not modified. Parts that an operation changes are copied
// once; all other parts are shared with the result. The error names the first
// operation that does not apply.
//
// It accepts no more than gopkg.in/evanphx/json-patch.v4, with which
// kube-apiserver applies patches, and gives the same document; that library's
// extensions (negative indexes, replacing a key that is missing) are refused.
func Apply(doc map[string]any, ops []Operation) (map[string]any, error) {
	root := &node{value: doc}
	for i, o := range ops {
		if err := root.apply(o, segments(o.op.Path)); err != nil {
			return nil, fmt.Errorf("applying operation %d, %s %s: %w", i, o.op.Operation, o.op.Path, err)
		}
	}
	return root.value.(map[string]any), nil
}

// Check reports whether the operations turn original into exactly intended:
// the same keys, texts, order, and numbers digit by digit. An error means that
// the patch must not be sent.
func Check(original map[string]any, ops []Operation, intended map[string]any) error {
	got, err := Apply(original, ops)
	if err != nil {
		return fmt.Errorf("checking the patch: %w", err)
	}
	if where, same := compare(got, intended); !same {
		return fmt.Errorf("checking the patch: it does not give the intended pod at %q", where)
	}
	return nil
}

// node is a value of the document that an operation has reached. Its children
// are kept so that a container which many operations change is copied once.
type node struct {
	value any
	owned bool
	kids  map[string]*node
}

func (n *node) apply(o Operation, path []string) error {
	if len(path) > 1 {
		return n.descend(o, path)
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

func (n *node) descend(o Operation, path []string) error {
	kid, err := n.kid(path[0])
	if err != nil {
		return err
	}
	if err := kid.apply(o, path[1:]); err != nil || o.op.Operation == Test {
		return err
	}
	n.own()
	switch v := n.value.(type) {
	case map[string]any:
		v[path[0]] = kid.value
	case []any:
		i, _ := position(path[0], len(v))
		v[i] = kid.value
	}
	return nil
}

func (n *node) kid(segment string) (*node, error) {
	value, err := n.get(segment)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", segment, err)
	}
	if kid, ok := n.kids[segment]; ok {
		return kid, nil
	}
	if n.kids == nil {
		n.kids = map[string]*node{}
	}
	kid := &node{value: value}
	n.kids[segment] = kid
	return kid, nil
}

func (n *node) get(segment string) (any, error) {
	switch v := n.value.(type) {
	case map[string]any:
		value, ok := v[segment]
		if !ok {
			return nil, errNoValue
		}
		return value, nil
	case []any:
		i, err := position(segment, len(v))
		if err != nil {
			return nil, err
		}
		return v[i], nil
	default:
		return nil, errNoValue
	}
}

// own copies the container unless it is this document's already.
func (n *node) own() {
	if n.owned {
		return
	}
	switch v := n.value.(type) {
	case map[string]any:
		c := make(map[string]any, len(v)+1)
		for key, value := range v {
			c[key] = value
		}
		n.value = c
	case []any:
		n.value = append(make([]any, 0, len(v)+4), v...)
	}
	n.owned = true
}

func (n *node) applyToObject(o Operation, key string) error {
	current, ok := n.value.(map[string]any)[key]
	switch {
	case o.op.Operation == Add:
	case !ok:
		return errNoValue
	case o.op.Operation == Test:
		return test(current, o.op.Value)
	}
	n.own()
	delete(n.kids, key)
	if o.op.Operation == Remove {
		delete(n.value.(map[string]any), key)
		return nil
	}
	n.value.(map[string]any)[key] = o.op.Value
	return nil
}

func (n *node) applyToArray(o Operation, segment string) error {
	items := n.value.([]any)
	if o.op.Operation == Add {
		return n.insert(segment, len(items), o.op.Value)
	}
	i, err := position(segment, len(items))
	if err != nil {
		return err
	}
	if o.op.Operation == Test {
		return test(items[i], o.op.Value)
	}
	n.own()
	items = n.value.([]any)
	if o.op.Operation == Replace {
		delete(n.kids, segment)
		items[i] = o.op.Value
		return nil
	}
	n.kids = nil
	n.value = slices.Delete(items, i, i+1)
	return nil
}

func (n *node) insert(segment string, length int, value any) error {
	if segment == "-" || segment == fmt.Sprint(length) {
		n.own()
		n.value = append(n.value.([]any), value)
		return nil
	}
	i, err := position(segment, length+1)
	if err != nil {
		return err
	}
	n.own()
	// The indexes behind i change, so the kids are found and copied anew.
	n.kids = nil
	n.value = slices.Insert(n.value.([]any), i, value)
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
