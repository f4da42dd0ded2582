package expression

import (
	"testing"

	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// sample is an environment with parameters of all kinds, and a run in it.
func sample(t *testing.T) (*Environment, func() *Run) {
	t.Helper()
	items := &v1alpha1.Items{Type: "string"}
	e, err := NewEnvironment(Template{
		Parameters: []v1alpha1.Parameter{
			{Name: "port", Type: "integer"}, {Name: "text", Type: "string"}, {Name: "list", Type: "list", Items: items},
			{Name: "map", Type: "map", Items: items}, {Name: "any", Type: "json"}, {Name: "absent", Type: "string"},
		},
		Values:   map[string]any{"region": "eu"},
		Patterns: &param.Patterns{},
		Problem:  func(_ Place, message string) { t.Fatal(message) },
		Warn:     func(Place, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Declare("greeting", e.Compile("'hello ' + params.text", Place{}))
	e.Declare("broken", e.Compile("string(1 / (params.port - params.port))", Place{}))
	pod, err := rawjson.Decode([]byte(`{"metadata":{"name":"p","labels":{"b":"2","a":"1","c":"3"}},"spec":{"containers":[{"name":"x","ports":[{"containerPort":8080}]},{"name":"y"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{
		"port": int64(8080), "text": "a-b-c 127.0.0.1", "list": []any{"x", "y", "x"}, "map": map[string]any{"k": "v", "a": "b"}, "any": map[string]any{"deep": []any{true}},
	}
	namespace := map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]string{"team": "shop"}, "annotations": map[string]string{}}}
	return e, func() *Run {
		return e.Names().Run(t.Context(), &Budget{}, pod.(map[string]any), namespace, params)
	}
}
