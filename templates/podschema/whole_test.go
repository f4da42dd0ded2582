package podschema

import "testing"

func TestWholeObjectsAreThoseOfTheListAndTheAPIs(t *testing.T) {
	for name, c := range map[string]struct {
		typ  *Type
		want bool
	}{
		"an app container's variable":   {At("spec.containers[].env[]"), true},
		"an init container's variable":  {At("spec.initContainers[].env[]"), true},
		"a volume":                      {At("spec.volumes[]"), true},
		"a reference that is atomic":    {At("spec.imagePullSecrets[]"), true},
		"a container":                   {At("spec.containers[]"), false},
		"a probe":                       {At("spec.containers[].livenessProbe"), false},
		"a map that the API has atomic": {At("spec.nodeSelector"), false},
		"an unknown type":               {nil, false},
	} {
		if got := c.typ.IsWhole(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
