package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Check compares a decoded value of a manifest with its Go type, and reports every mistake. It returns the
// value without the parts that do not fit, so that the rest can be checked, too.
func Check(v any, t reflect.Type, at *Path, report func(at *Path, message string)) any {
	s := strict{report: report}
	return s.check(v, t, at)
}

type strict struct {
	report func(at *Path, message string)
}

var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	itemsType       = reflect.TypeFor[v1alpha1.Items]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

func (s *strict) check(v any, t reflect.Type, at *Path) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case v == nil || t == rawType:
		return v
	case t == itemsType:
		if name, ok := v.(string); ok {
			return map[string]any{"type": name}
		}
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return s.custom(v, t, at)
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return s.object(v, t, at)
	case reflect.Slice:
		return s.list(v, t, at)
	case reflect.String:
		if _, ok := v.(string); ok {
			return v
		}
		s.report(at, fmt.Sprintf("must be text; got %s%s", show.Kind(v), quoteIt(v)))
	case reflect.Bool:
		if _, ok := v.(bool); ok {
			return v
		}
		s.report(at, fmt.Sprintf("must be true or false; got %s", show.Kind(v)))
	default:
		return s.integer(v, t, at)
	}
	return nil
}

// custom checks a value of a type that unmarshals itself, such as a time.
func (s *strict) custom(v any, t reflect.Type, at *Path) any {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		s.report(at, "cannot be read: "+show.Plain(err.Error()))
		return nil
	}
	return v
}

func (s *strict) object(v any, t reflect.Type, at *Path) any {
	object, ok := v.(map[string]any)
	if !ok {
		s.report(at, fmt.Sprintf("must be an object; got %s", show.Kind(v)))
		return nil
	}
	var fields map[string]reflect.Type
	if t.Kind() == reflect.Struct {
		fields = jsonFields(t)
	}
	good := make(map[string]any, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		field, ok := fields[key]
		if t.Kind() == reflect.Map {
			field = t.Elem()
		} else if !ok {
			s.report(at.Field(key), "unknown field"+nearest.Hint(key, slices.Sorted(maps.Keys(fields))))
			continue
		}
		if checked := s.check(object[key], field, at.Field(key)); checked != nil {
			good[key] = checked
		}
	}
	return good
}

// list keeps the index of an item that does not fit, so that the others keep theirs.
func (s *strict) list(v any, t reflect.Type, at *Path) any {
	items, ok := v.([]any)
	if !ok {
		s.report(at, fmt.Sprintf("must be a list; got %s", show.Kind(v)))
		return nil
	}
	good := make([]any, len(items))
	for i, item := range items {
		if item == nil && t.Elem() != rawType {
			s.report(at.Item(i), "must not be null")
			continue
		}
		good[i] = s.check(item, t.Elem(), at.Item(i))
	}
	return good
}

func (s *strict) integer(v any, t reflect.Type, at *Path) any {
	n, ok := v.(json.Number)
	if !ok {
		s.report(at, fmt.Sprintf("must be a whole number; got %s", show.Kind(v)))
		return nil
	}
	bits := t.Bits()
	if _, err := strconv.ParseInt(n.String(), 10, bits); err != nil {
		limit := int64(math.MaxInt64) >> (64 - bits)
		s.report(at, fmt.Sprintf("must be a whole number from %d to %d; got %s", -limit-1, limit, show.Plain(n.String())))
		return nil
	}
	return v
}

// jsonFields returns the fields that encoding/json gives a struct, embedded ones
// included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(fields, jsonFields(f.Type))
		case name != "" && name != "-":
			fields[name] = f.Type
		}
	}
	return fields
}

// quoteIt suggests the quotes for a value that YAML does not read as text.
func quoteIt(v any) string {
	switch v.(type) {
	case bool:
		return ": put it in quotes (y, n, yes, no, on and off are booleans in YAML, too)"
	case json.Number:
		return ": put it in quotes"
	}
	return ""
}
