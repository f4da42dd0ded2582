package podschema

import (
	"errors"
	"fmt"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

// DecodeObject is [rawjson.Decode] for a JSON object, without the value at a path of fields.
func DecodeObject(text []byte, without ...string) (map[string]any, error) {
	v, err := rawjson.DecodeWithout(text, without...)
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

// Encode returns the JSON text of a value, without escapes for HTML, and with sorted fields. It panics if the
// value is not JSON.
func Encode(v any) []byte { return rawjson.Append(nil, v) }
