package podschema

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Decode is [rawjson.Decode] for parts of pods, which have the field names of the schema.
func Decode(text []byte) (any, error) { return rawjson.Decode(text, fieldNames()) }

// DecodeObject is [Decode] for a JSON object, without the value at a path of fields.
func DecodeObject(text []byte, without ...string) (map[string]any, error) {
	v, err := rawjson.DecodeWithout(text, fieldNames(), without...)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	switch {
	case v == nil:
		return nil, errors.New("it is null")
	case !ok:
		return nil, fmt.Errorf("it is %s; an object is expected", Show(v))
	}
	return object, nil
}

// fieldNames has the names of all fields of a pod, by how JSON writes them.
var fieldNames = sync.OnceValue(func() map[string]string {
	names, seen := map[string]string{}, map[*Type]bool{}
	var walk func(*Type)
	walk = func(t *Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		for _, name := range t.names {
			names[`"`+name+`"`] = name
			walk(t.fields[name])
		}
		walk(t.elem)
	}
	walk(Pod())
	return names
})

// Encode returns the JSON text of a value, without escapes for HTML, the fields of objects in
// order. It panics for what is no JSON.
func Encode(v any) []byte { return rawjson.Append(nil, v) }
