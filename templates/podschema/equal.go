package podschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Equal reports whether the API would treat a and b as the same value of type
// t: absent fields are their defaults, quantities are numbers, null and empty
// are absent, sets have no order.
func Equal(t *Type, a, b any) bool {
	return Canonical(t, a) == Canonical(t, b)
}

// Canonical returns JSON text that is the same for all values that are [Equal].
func Canonical(t *Type, v any) string {
	var b strings.Builder
	writeCanonical(&b, t, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, t *Type, v any) {
	switch v := v.(type) {
	case map[string]any:
		writeObject(b, t, v)
	case []any:
		writeList(b, t, v)
	default:
		writeScalar(b, t, v)
	}
}

func writeScalar(b *strings.Builder, t *Type, v any) {
	// A port may be a name or a number, and "80" is not 80; every other scalar
	// that may be either is a quantity or a time.
	if t != nil && t.Kind() == Scalar && t.Scalar() == Untyped && t != known().intOrString {
		if q, ok := Quantity(v); ok {
			b.WriteString(q)
			return
		}
	}
	if n, ok := v.(json.Number); ok {
		b.WriteString(canonicalNumber(string(n)))
		return
	}
	b.Write(Encode(v))
}

func writeObject(b *strings.Builder, t *Type, v map[string]any) {
	v = withImpliedRequests(t, v)
	b.WriteByte('{')
	first := true
	for _, name := range slices.Sorted(maps.Keys(v)) {
		ft := t.Child(name)
		if v[name] == nil || IsDefault(t, name, v) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(Encode(name))
		b.WriteByte(':')
		writeCanonical(b, ft, v[name])
	}
	b.WriteByte('}')
}

func writeList(b *strings.Builder, t *Type, v []any) {
	var elem *Type
	if t != nil && t.Kind() == List {
		elem = t.Elem()
	}
	items := make([]string, len(v))
	for i, item := range v {
		items[i] = Canonical(elem, item)
	}
	if id, ok := t.Identity(); ok && id.Set() {
		slices.Sort(items)
	}
	b.WriteByte('[')
	b.WriteString(strings.Join(items, ","))
	b.WriteByte(']')
}

// withImpliedRequests adds the requests that the API derives from limits.
func withImpliedRequests(t *Type, v map[string]any) map[string]any {
	if t == nil || t != known().resources {
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

// Encode is json.Marshal without escapes for HTML. It panics for what is not
// decoded JSON.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("podschema: encoding a JSON value: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
