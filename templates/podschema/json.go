package podschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Decode is [rawjson.Decode] for parts of pods, which have the field names of the schema.
func Decode(text []byte) (any, error) { return rawjson.Decode(text, common()) }

// DecodeObject is [Decode] for a JSON object, without the value at a path of fields.
func DecodeObject(text []byte, without ...string) (map[string]any, error) {
	v, err := rawjson.DecodeWithout(text, common(), without...)
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

// common has what many pods have, by how JSON writes it: the names of fields, defaults, and
// small numbers.
var common = sync.OnceValue(func() map[string]any {
	values, seen := map[string]any{}, map[*Type]bool{}
	add := func(v any) { values[string(Encode(v))] = v }
	var walk func(*Type)
	walk = func(t *Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		for _, name := range t.names {
			add(name)
			walk(t.fields[name])
		}
		walk(t.elem)
	}
	walk(Pod())
	for _, v := range fixed {
		switch v.(type) {
		case string, json.Number:
			add(v)
		}
	}
	for _, v := range []string{"v1", "Pod", "default", "IfNotPresent", "Never", "NoExecute", "NoSchedule", "Exists", "Equal", "PreemptLowerPriority"} {
		add(v)
	}
	for n := range 1024 {
		add(json.Number(strconv.Itoa(n)))
	}
	return values
})

// Encode returns the JSON text of a value, without escapes for HTML, the fields of objects in
// order. It panics for what is no JSON.
func Encode(v any) []byte { return rawjson.Append(nil, v) }
