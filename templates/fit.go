package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// fitting turns values into what the pod's schema wants.
type fitting struct{ allowUnknownFields bool }

// fit returns v as a value of the type t, which is nil for a field that this
// build does not know. Nil leaves the field out. Its error says where in v.
func (f fitting) fit(v any, t *podschema.Type, where string) (any, error) {
	if v == nil {
		return nil, nil
	}
	if t == nil {
		return f.fitUnknown(v, where)
	}
	switch t.Kind() {
	case podschema.Struct, podschema.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return nil, mismatch(v, t, where)
		}
		return f.fitEntries(m, t, where)
	case podschema.List:
		l, ok := v.([]any)
		if !ok {
			return nil, mismatch(v, t, where)
		}
		return f.fitItems(l, t, where)
	}
	return fitScalar(v, t, where)
}

func (f fitting) fitUnknown(v any, where string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		return f.fitEntries(v, nil, where)
	case []any:
		return f.fitItems(v, nil, where)
	}
	return v, nil
}

func (f fitting) fitEntries(m map[string]any, t *podschema.Type, where string) (any, error) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value := m[key]
		if directive.Is(key) {
			return nil, fmt.Errorf("%sgives the key %s; no key of a value may begin with $", where, show.Value(key))
		}
		elem, ok := entryType(t, key)
		if !ok && !f.allowUnknownFields {
			return nil, fmt.Errorf("%sgives the unknown field %s%s", where, show.Value(key), nearest.Hint(key, t.FieldNames()))
		}
		fitted, err := f.fit(value, elem, where+"in "+show.Value(key)+": ")
		if err != nil {
			return nil, err
		}
		if fitted == nil {
			delete(m, key)
			continue
		}
		m[key] = fitted
	}
	return m, nil
}

// entryType returns the type of a value in an object of the type t, and whether
// t has that field at all.
func entryType(t *podschema.Type, key string) (*podschema.Type, bool) {
	switch {
	case t == nil:
		return nil, true
	case t.Kind() == podschema.Map:
		return t.Elem(), true
	}
	return t.Field(key)
}

func (f fitting) fitItems(l []any, t *podschema.Type, where string) (any, error) {
	var elem *podschema.Type
	if t != nil {
		elem = t.Elem()
	}
	out := make([]any, 0, len(l))
	for i, item := range l {
		fitted, err := f.fit(item, elem, itemAt(where, i))
		if err != nil {
			return nil, err
		}
		if fitted != nil {
			out = append(out, fitted)
		}
	}
	return out, nil
}

func itemAt(where string, i int) string { return fmt.Sprintf("%sin item %d: ", where, i) }

func fitScalar(v any, t *podschema.Type, where string) (any, error) {
	switch native := v.(type) {
	case map[string]any, []any:
		return nil, mismatch(v, t, where)
	case json.Number:
		switch t.Scalar() {
		case podschema.String:
			return native.String(), nil
		case podschema.Number:
			if _, err := strconv.ParseInt(native.String(), 10, 64); err != nil {
				return nil, fmt.Errorf("%sgives the number %s; want a whole number", where, show.Plain(native.String()))
			}
			return native, nil
		case podschema.Untyped:
			return native, nil
		}
	case bool:
		switch t.Scalar() {
		case podschema.String:
			return strconv.FormatBool(native), nil
		case podschema.Boolean:
			return native, nil
		}
	case string:
		if t.Scalar() == podschema.String || t.Scalar() == podschema.Untyped {
			return native, nil
		}
	}
	return nil, mismatch(v, t, where)
}

func mismatch(v any, t *podschema.Type, where string) error {
	return &misfit{value: v, want: t, where: where}
}

// misfit is a value of the wrong kind. Where says where in what an expression gives, and is
// empty for all of it.
type misfit struct {
	value any
	want  *podschema.Type
	where string
}

// Error implements error.
func (m *misfit) Error() string {
	return fmt.Sprintf("%sgives %s; want %s", m.where, show.Kind(m.value), m.want.Words())
}
