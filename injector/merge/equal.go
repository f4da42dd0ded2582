package merge

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// equal reports whether the API would treat a and b as the same value of type
// t: absent fields are their defaults, quantities are numbers, null and empty
// are absent, sets have no order.
func equal(t *podschema.Type, a, b any) bool {
	return canonical(t, a) == canonical(t, b)
}

// canonical returns JSON text that is the same for all values that are [equal].
func canonical(t *podschema.Type, v any) string {
	var b strings.Builder
	writeCanonical(&b, t, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, t *podschema.Type, v any) {
	switch v := v.(type) {
	case map[string]any:
		writeObject(b, t, v)
	case []any:
		writeList(b, t, v)
	default:
		writeScalar(b, t, v)
	}
}

func writeScalar(b *strings.Builder, t *podschema.Type, v any) {
	// A port may be a name or a number, and "80" is not 80; every other scalar
	// that may be either is a quantity or a time.
	if t != nil && t.Kind() == podschema.Scalar && t.Scalar() == podschema.Untyped && t != known().intOrString {
		if q, ok := canonicalQuantity(v); ok {
			b.WriteString(q)
			return
		}
	}
	if n, ok := v.(json.Number); ok {
		b.WriteString(canonicalNumber(string(n)))
		return
	}
	b.Write(encode(v))
}

func writeObject(b *strings.Builder, t *podschema.Type, v map[string]any) {
	v = withImpliedRequests(t, v)
	b.WriteByte('{')
	first := true
	for _, name := range slices.Sorted(maps.Keys(v)) {
		ft := child(t, name)
		if v[name] == nil || isDefault(t, name, v) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(encode(name))
		b.WriteByte(':')
		writeCanonical(b, ft, v[name])
	}
	b.WriteByte('}')
}

func writeList(b *strings.Builder, t *podschema.Type, v []any) {
	var elem *podschema.Type
	if t != nil && t.Kind() == podschema.List {
		elem = t.Elem()
	}
	items := make([]string, len(v))
	for i, item := range v {
		items[i] = canonical(elem, item)
	}
	if id, ok := known().identityOf(t); ok && id.set() {
		slices.Sort(items)
	}
	b.WriteByte('[')
	b.WriteString(strings.Join(items, ","))
	b.WriteByte(']')
}

// withImpliedRequests adds the requests that the API derives from limits.
func withImpliedRequests(t *podschema.Type, v map[string]any) map[string]any {
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

// encode is json.Marshal without escapes for HTML. What it encodes was decoded
// from JSON or built from it, so an error is impossible.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("merge: encoding a JSON value: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
