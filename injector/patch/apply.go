package patch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"
)

var errNoValue = errors.New("no value at this path")

// Check reports whether the operations, applied one after the other as RFC 6902 defines them, turn
// original into exactly intended: the same keys, texts, order, and numbers digit by digit. An
// error means that the patch must not be sent, or is that of the context, which has ended.
//
// It accepts no more than gopkg.in/evanphx/json-patch.v4, with which kube-apiserver applies
// patches, and gives the same document; that library's extensions (negative indexes, replacing a
// key that is missing) are refused. It changes no document, and copies only the objects and lists
// on the operations' paths.
func Check(ctx context.Context, original map[string]any, ops []Operation, intended map[string]any) error {
	root, err := applied(ctx, original, ops)
	if err != nil {
		return fmt.Errorf("checking the patch: %w", err)
	}
	if where, same := compare(root, intended); !same {
		return fmt.Errorf("checking the patch: the patched pod differs from the intended one at %q", where)
	}
	return nil
}

// object and list are copies of an object and of a list of the document. Their members may be shared with the
// document.
type (
	object map[string]any
	list   struct{ items []any }
)

// applied returns a document with the operations applied. The error names the first operation that fails.
func applied(ctx context.Context, doc map[string]any, ops []Operation) (object, error) {
	root := copied(doc).(object)
	for i, o := range ops {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := sendable(o)
		if err == nil {
			err = apply(root, o, segments(o.op.Path))
		}
		if err != nil {
			return nil, fmt.Errorf("applying operation %d, %s %s: %w", i, o.op.Operation, o.op.Path, err)
		}
	}
	return root, nil
}

// sendable returns an error for an operation that the API server could not decode unchanged.
func sendable(o Operation) error {
	switch {
	case o.op.Path == "":
		return errors.New("the whole document cannot be changed")
	case !slices.Contains([]string{Add, Replace, Remove, Test}, o.op.Operation):
		return errors.New("there is no such operation")
	}
	return cmp.Or(validText(o.op.Path), valid(o.op.Value))
}

// valid returns an error for a value that the API server's decoder would change.
func valid(v any) error {
	switch v := v.(type) {
	case nil, bool:
		return nil
	case string:
		return validText(v)
	case json.Number:
		if s := string(v); s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) {
			return fmt.Errorf("%q is not a JSON number", s)
		}
	case []any:
		for _, item := range v {
			if err := valid(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			if err := cmp.Or(validText(key), valid(item)); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("a Go %T, where JSON decoded with exact numbers has none", v)
	}
	return nil
}

func validText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("text %q is not valid UTF-8", s)
	}
	return nil
}

// copied returns a copy of a value that may be changed.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return object{}
		}
		return object(maps.Clone(v))
	case []any:
		return &list{slices.Clone(v)}
	default:
		return v
	}
}

func apply(parent any, o Operation, path []string) error {
	segment, last := path[0], len(path) == 1
	switch parent := parent.(type) {
	case object:
		if last {
			return parent.apply(o, segment)
		}
		child, ok := parent[segment]
		if !ok {
			return fmt.Errorf("%q: %w", segment, errNoValue)
		}
		parent[segment] = copied(child)
		return apply(parent[segment], o, path[1:])
	case *list:
		if last {
			return parent.apply(o, segment)
		}
		i, err := position(segment, len(parent.items))
		if err != nil {
			return err
		}
		parent.items[i] = copied(parent.items[i])
		return apply(parent.items[i], o, path[1:])
	default:
		return fmt.Errorf("%q: its parent is neither object nor array", segment)
	}
}

func (parent object) apply(o Operation, key string) error {
	current, have := parent[key]
	switch {
	case !have && o.op.Operation != Add:
		return errNoValue
	case o.op.Operation == Test:
		return test(current, o.op.Value)
	case o.op.Operation == Remove:
		delete(parent, key)
	default:
		parent[key] = o.op.Value
	}
	return nil
}

func (parent *list) apply(o Operation, segment string) error {
	limit := len(parent.items)
	if o.op.Operation == Add {
		if segment == "-" {
			parent.items = append(parent.items, o.op.Value)
			return nil
		}
		limit++
	}
	i, err := position(segment, limit)
	if err != nil {
		return err
	}
	switch o.op.Operation {
	case Add:
		parent.items = slices.Insert(parent.items, i, o.op.Value)
	case Test:
		return test(parent.items[i], o.op.Value)
	case Replace:
		parent.items[i] = o.op.Value
	default:
		parent.items = slices.Delete(parent.items, i, i+1)
	}
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
	case object:
		return compare(map[string]any(a), b)
	case *list:
		return compare(a.items, b)
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
