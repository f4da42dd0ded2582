package podschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Equal reports whether the API would treat a and b as the same value of type
// t: absent fields are their defaults, quantities are numbers, null and empty
// are absent, sets have no order.
func Equal(t *Type, a, b any) bool {
	switch a := a.(type) {
	case json.Number, bool:
		if a == b {
			return true
		}
	case string:
		// Different texts can be equal quantities.
		if b, ok := b.(string); ok && (a == b || t != nil && t.Kind() == Scalar && t.Scalar() != Untyped) {
			return a == b
		}
	}
	buffer := spare.Get().(*[]byte)
	defer spare.Put(buffer)
	*buffer = AppendCanonical((*buffer)[:0], t, a)
	end := len(*buffer)
	*buffer = AppendCanonical(*buffer, t, b)
	return bytes.Equal((*buffer)[:end], (*buffer)[end:])
}

// spare has buffers for the texts of comparisons.
var spare = sync.Pool{New: func() any { return new([]byte) }}

// Canonical returns JSON text that is the same for all values that are [Equal].
func Canonical(t *Type, v any) string { return string(AppendCanonical(nil, t, v)) }

// AppendCanonical appends the result of [Canonical].
func AppendCanonical(b []byte, t *Type, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		return appendObject(b, t, v)
	case []any:
		return appendList(b, t, v)
	default:
		return appendScalar(b, t, v)
	}
}

func appendScalar(b []byte, t *Type, v any) []byte {
	// A port is a name or a number, and "80" is not 80. Any other scalar of two types is a quantity or a time.
	if t != nil && t.Kind() == Scalar && t.Scalar() == Untyped && !t.means.intOrString {
		if q, ok := Quantity(v); ok {
			return append(b, q...)
		}
	}
	switch v := v.(type) {
	case json.Number:
		return append(b, canonicalNumber(string(v))...)
	case string:
		return rawjson.AppendText(b, v)
	}
	return rawjson.Append(b, v)
}

func appendObject(b []byte, t *Type, v map[string]any) []byte {
	v = withImpliedRequests(t, v)
	b = append(b, '{')
	first := true
	var room [16]string // enough for most objects
	for _, name := range rawjson.SortedKeys(room[:0], v) {
		ft := t.Child(name)
		if v[name] == nil || IsDefault(t, name, v) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(rawjson.AppendText(b, name), ':')
		b = AppendCanonical(b, ft, v[name])
	}
	return append(b, '}')
}

func appendList(b []byte, t *Type, v []any) []byte {
	var elem *Type
	if t != nil && t.Kind() == List {
		elem = t.Elem()
	}
	b = append(b, '[')
	if id, ok := t.Identity(); ok && id.Set() {
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = Canonical(elem, item)
		}
		slices.Sort(items)
		for i, item := range items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, item...)
		}
		return append(b, ']')
	}
	for i, item := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendCanonical(b, elem, item)
	}
	return append(b, ']')
}

// withImpliedRequests adds the requests that the API derives from limits.
func withImpliedRequests(t *Type, v map[string]any) map[string]any {
	if t == nil || !t.means.resources {
		return v
	}
	limits, ok := v["limits"].(map[string]any)
	if !ok {
		return v
	}
	requests := maps.Clone(limits)
	given, _ := v["requests"].(map[string]any)
	maps.Copy(requests, given)
	v = maps.Clone(v)
	v["requests"] = requests
	return v
}
