package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

var (
	errNoValue = errors.New("there is nothing there")
	errWhole   = errors.New("it is about the whole document")
	errUnknown = errors.New("there is no such operation here")
)

// Check reports whether the patch as it is sent, with its operations applied one after the other as
// RFC 6902 defines them, turns original into exactly intended: the same keys, texts, order, and
// numbers digit by digit. An error means that the patch must not be sent, or is that of the context,
// which has ended.
//
// It accepts no more than gopkg.in/evanphx/json-patch.v4, with which kube-apiserver applies
// patches, and gives the same document; that library's extensions (negative indexes, replacing a
// key that is missing) are refused. It changes no document, and copies only the objects and lists
// on the operations' paths.
func Check(ctx context.Context, original map[string]any, ops []Operation, intended map[string]any) error {
	root, err := applied(ctx, original, Marshal(ops))
	if err != nil {
		return fmt.Errorf("checking the patch: %w", err)
	}
	if where, same := compare(root, intended); !same {
		return fmt.Errorf("checking the patch: it does not give the intended pod at %q", where)
	}
	return nil
}

// object and list are an object and a list of the document that were copied, and may be changed.
// What is in them may be the document's own.
type (
	object map[string]any
	list   struct{ items []any }
)

// step is an operation as it was sent.
type step struct {
	op    string
	value any
}

// applied returns a document with the operations of a patch. The error names the first one that does
// not apply.
func applied(ctx context.Context, doc map[string]any, text []byte) (object, error) {
	sent, err := rawjson.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	root := copied(doc).(object)
	for i, v := range sent.([]any) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fields := v.(map[string]any)
		op, pointer := fields["op"].(string), fields["path"].(string)
		switch {
		case pointer == "":
			err = errWhole
		case !slices.Contains([]string{Add, Replace, Remove, Test}, op):
			err = errUnknown
		default:
			err = apply(root, step{op, fields["value"]}, segments(pointer))
		}
		if err != nil {
			return nil, fmt.Errorf("applying operation %d, %s %s: %w", i, op, pointer, err)
		}
	}
	return root, nil
}

// copied returns a value that may be changed.
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

func apply(parent any, o step, path []string) error {
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

func (parent object) apply(o step, key string) error {
	current, have := parent[key]
	switch {
	case !have && o.op != Add:
		return errNoValue
	case o.op == Test:
		return test(current, o.value)
	case o.op == Remove:
		delete(parent, key)
	default:
		parent[key] = o.value
	}
	return nil
}

func (parent *list) apply(o step, segment string) error {
	limit := len(parent.items)
	if o.op == Add {
		if segment == "-" {
			parent.items = append(parent.items, o.value)
			return nil
		}
		limit++
	}
	i, err := position(segment, limit)
	if err != nil {
		return err
	}
	switch o.op {
	case Add:
		parent.items = slices.Insert(parent.items, i, o.value)
	case Test:
		return test(parent.items[i], o.value)
	case Replace:
		parent.items[i] = o.value
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
