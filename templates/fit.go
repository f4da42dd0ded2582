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

// fit converts v to the type t, which is nil for an unknown field. It returns nil for a field to leave out. Its
// error is a [*misfit].
func (t *Template) fit(v any, typ *podschema.Type) (any, error) {
	m, isObject := v.(map[string]any)
	l, isList := v.([]any)
	switch {
	case v == nil:
		return nil, nil
	case isObject && (typ == nil || typ.Kind() == podschema.Struct || typ.Kind() == podschema.Map):
		return t.fitEntries(m, typ)
	case isList && typ == nil:
		return t.fitItems(l, nil)
	case isList && typ.Kind() == podschema.List:
		return t.fitItems(l, typ.Elem())
	case typ == nil:
		return v, nil
	case typ.Kind() == podschema.Scalar:
		return fitScalar(v, typ)
	}
	return nil, &misfit{value: v, want: typ}
}

func (t *Template) fitEntries(m map[string]any, typ *podschema.Type) (any, error) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if directive.Is(key) {
			return nil, &misfit{gives: fmt.Sprintf("the key %s; no key of a value may begin with $", show.Value(key))}
		}
		elem := typ.Child(key)
		if elem == nil && typ != nil && !t.spec.AllowUnknownFields {
			return nil, &misfit{gives: fmt.Sprintf("the unknown field %s%s", show.Value(key), nearest.Hint(key, typ.FieldNames()))}
		}
		fitted, err := t.fit(m[key], elem)
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

// fitItems is fit for each item of a list, without the items that are left out.
func (t *Template) fitItems(l []any, elem *podschema.Type) ([]any, error) {
	out := make([]any, 0, len(l))
	for i, item := range l {
		fitted, err := t.fit(item, elem)
		if err != nil {
			return nil, within("item "+strconv.Itoa(i), err)
		}
		if fitted != nil {
			out = append(out, fitted)
		}
	}
	return out, nil
}

// fitScalar converts a scalar to the type t, and validates it: a quantity, a port, a number with bounds.
func fitScalar(v any, t *podschema.Type) (any, error) {
	fitted, err := convertScalar(v, t)
	if err != nil {
		return nil, err
	}
	if err := t.Validate(fitted); err != nil {
		return nil, &misfit{gives: fmt.Sprintf("%s, which %v", showScalar(fitted), err)}
	}
	return fitted, nil
}

func showScalar(v any) string {
	if text, ok := v.(string); ok {
		return show.Value(text)
	}
	return show.Plain(fmt.Sprint(v))
}

func convertScalar(v any, t *podschema.Type) (any, error) {
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
	// gives describes the value. It is empty for a value of the wrong kind.
	gives string
	// value is a value of the wrong kind, want the expected type.
	value any
	want  *podschema.Type
	// in has the containers of the value, from the innermost to the outermost. It is empty for the whole value
	// of an expression.
	in []string
}

// within adds a container of the value to a misfit.
func within(what string, err error) error {
	var wrong *misfit
	if errors.As(err, &wrong) {
		wrong.in = append(wrong.in, what)
	}
	return err
}

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
