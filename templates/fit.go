package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// fitting turns values into what the pod's schema wants.
type fitting struct{ allowUnknownFields bool }

// fit returns v as a value of the type t, which is nil for a field that this
// build does not know. Nil leaves the field out. Its error is a [*misfit].
func (f fitting) fit(v any, t *podschema.Type) (any, error) {
	m, isObject := v.(map[string]any)
	l, isList := v.([]any)
	switch {
	case v == nil:
		return nil, nil
	case isObject && (t == nil || t.Kind() == podschema.Struct || t.Kind() == podschema.Map):
		return f.fitEntries(m, t)
	case isList && (t == nil || t.Kind() == podschema.List):
		return f.fitItems(l, t)
	case t == nil:
		return v, nil
	case t.Kind() == podschema.Scalar:
		return fitScalar(v, t)
	}
	return nil, &misfit{value: v, want: t}
}

func (f fitting) fitEntries(m map[string]any, t *podschema.Type) (any, error) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value := m[key]
		if directive.Is(key) {
			return nil, &misfit{gives: fmt.Sprintf("the key %s; no key of a value may begin with $", show.Value(key))}
		}
		elem, ok := entryType(t, key)
		if !ok && !f.allowUnknownFields {
			return nil, &misfit{gives: fmt.Sprintf("the unknown field %s%s", show.Value(key), nearest.Hint(key, t.FieldNames()))}
		}
		fitted, err := f.fit(value, elem)
		if err != nil {
			return nil, within(show.Value(key), err)
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

func (f fitting) fitItems(l []any, t *podschema.Type) (any, error) {
	var elem *podschema.Type
	if t != nil {
		elem = t.Elem()
	}
	out := make([]any, 0, len(l))
	for i, item := range l {
		fitted, err := f.fit(item, elem)
		if err != nil {
			return nil, withinItem(i, err)
		}
		if fitted != nil {
			out = append(out, fitted)
		}
	}
	return out, nil
}

func fitScalar(v any, t *podschema.Type) (any, error) {
	switch native := v.(type) {
	case map[string]any, []any:
		return nil, &misfit{value: v, want: t}
	case json.Number:
		switch t.Scalar() {
		case podschema.String:
			return native.String(), nil
		case podschema.Number:
			if _, err := strconv.ParseInt(native.String(), 10, 64); err != nil {
				return nil, &misfit{gives: fmt.Sprintf("the number %s; it must be a whole number", show.Plain(native.String()))}
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
	return nil, &misfit{value: v, want: t}
}

// misfit is a value that a pod cannot have.
type misfit struct {
	// gives says what is wrong. It is empty for a value of the wrong kind.
	gives string
	// value is one of the wrong kind, and want the type that it should have.
	value any
	want  *podschema.Type
	// in has what the value is in, from the inside to the outside. It is empty for all of what
	// an expression gives.
	in []string
}

// within says of a misfit what it is in.
func within(what string, err error) error {
	var wrong *misfit
	if errors.As(err, &wrong) {
		wrong.in = append(wrong.in, what)
	}
	return err
}

func withinItem(i int, err error) error { return within("item "+strconv.Itoa(i), err) }

// Error implements error.
func (m *misfit) Error() string {
	var b strings.Builder
	for _, what := range slices.Backward(m.in) {
		b.WriteString("in " + what + ": ")
	}
	if m.gives != "" {
		return b.String() + "gives " + m.gives
	}
	return fmt.Sprintf("%sgives %s; it must be %s", b.String(), show.Kind(m.value), m.want.Words())
}
