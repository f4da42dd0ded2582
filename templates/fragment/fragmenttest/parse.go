package fragmenttest

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Decode reads an object of YAML or JSON, with exact numbers.
func Decode(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	object, err := podschema.DecodeObject(data)
	if err != nil {
		t.Fatalf("decoding %s: %v", data, err)
	}
	return object
}

// Parse reads a fragment as a template's author writes it, without expressions.
func Parse(t testing.TB, text string) *fragment.Node {
	t.Helper()
	return Of(podschema.Pod(), Decode(t, text))
}

// Of returns the node of a value with directives as keys. It is the inverse of [JSON].
func Of(t *podschema.Type, v any) *fragment.Node {
	switch v := v.(type) {
	case map[string]any:
		return object(t, v)
	case []any:
		return list(t, v)
	}
	return fragment.Of(t, v)
}

func object(t *podschema.Type, v map[string]any) *fragment.Node {
	says := directive.Of(v)
	if _, isScalar := v["value"]; isScalar && t != nil && t.Kind() == podschema.Scalar {
		n := fragment.Scalar(t, v["value"])
		n.Directives = says
		return n
	}
	if t == nil {
		return fragment.Scalar(nil, v)
	}
	n := &fragment.Node{Kind: fragment.Object, Type: t, Directives: says}
	for name, value := range v {
		if field := Of(t.Child(name), value); !directive.Is(name) && field != nil {
			n.Set(name, field)
		}
	}
	return n
}

func list(t *podschema.Type, v []any) *fragment.Node {
	id, keyed := t.Identity()
	if !keyed {
		return fragment.Scalar(t, v)
	}
	n := &fragment.Node{Kind: fragment.List, Type: t}
	for _, value := range v {
		item := Of(id.Elem, value)
		if item.Marker {
			n.Replace = true
			continue
		}
		bare := *item
		bare.Directives = directive.Directives{}
		if key, ok := id.Key(bare.JSON()); ok {
			n.Items = append(n.Items, fragment.Item{Key: key, Node: item})
		}
	}
	return n
}

// Fits reports whether a value has the kinds of the schema, and no field that the schema does not have.
func Fits(t *podschema.Type, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if t == nil || t.Kind() != podschema.Struct && t.Kind() != podschema.Map || t.Child(name) == nil || !Fits(t.Child(name), field) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if t == nil || t.Kind() != podschema.List || !Fits(t.Elem(), item) {
				return false
			}
		}
	case string:
		return t != nil && t.Kind() == podschema.Scalar && t.Scalar() == podschema.String || t != nil && t.Scalar() == podschema.Untyped
	case bool:
		return t != nil && t.Kind() == podschema.Scalar && t.Scalar() == podschema.Boolean
	case json.Number:
		return t != nil && t.Kind() == podschema.Scalar && t.Scalar() != podschema.Boolean
	}
	return true
}
