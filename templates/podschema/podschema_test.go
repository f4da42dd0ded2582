package podschema

import (
	"slices"
	"testing"
)

func TestListsHaveTheKeysOfTheAPI(t *testing.T) {
	for path, want := range map[string][]string{
		"spec.containers":                                    {"name"},
		"spec.initContainers":                                {"name"},
		"spec.containers[].env":                              {"name"},
		"spec.containers[].ports":                            {"containerPort", "protocol"},
		"spec.containers[].volumeMounts":                     {"mountPath"},
		"spec.containers[].volumeDevices":                    {"devicePath"},
		"spec.containers[].resources.claims":                 {"name"},
		"spec.volumes":                                       {"name"},
		"spec.imagePullSecrets":                              {"name"},
		"spec.schedulingGates":                               {"name"},
		"spec.resourceClaims":                                {"name"},
		"spec.hostAliases":                                   {"ip"},
		"spec.topologySpreadConstraints":                     {"topologyKey", "whenUnsatisfiable"},
		"spec.tolerations":                                   nil,
		"spec.containers[].envFrom":                          nil,
		"spec.containers[].command":                          nil,
		"spec.containers[].securityContext.capabilities.add": nil,
	} {
		var got []string
		for _, k := range At(path).Keys() {
			got = append(got, k.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: keys %v, want %v", path, got, want)
		}
	}
}
