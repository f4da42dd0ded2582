package podschema

import "testing"

func TestWholeObjectsAreThoseOfTheListAndTheAPIs(t *testing.T) {
	field := func(t *Type, names ...string) *Type {
		for _, name := range names {
			t, _ = t.Field(name)
			if t.Kind() == List {
				t = t.Elem()
			}
		}
		return t
	}
	spec, _ := Pod().Field("spec")
	for name, c := range map[string]struct {
		typ  *Type
		want bool
	}{
		"an app container's variable":   {field(spec, "containers", "env"), true},
		"an init container's variable":  {field(spec, "initContainers", "env"), true},
		"a volume":                      {field(spec, "volumes"), true},
		"a reference that is atomic":    {field(spec, "imagePullSecrets"), true},
		"a container":                   {field(spec, "containers"), false},
		"a probe":                       {field(spec, "containers", "livenessProbe"), false},
		"a map that the API has atomic": {field(spec, "nodeSelector"), false},
		"an unknown type":               {nil, false},
	} {
		if got := c.typ.IsWhole(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
