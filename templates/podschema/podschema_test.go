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

func TestAPortWithoutAProtocolIsTCP(t *testing.T) {
	keys := At("spec.containers[].ports").Keys()
	if len(keys) != 2 || keys[1].Default != "TCP" {
		t.Fatalf("keys of ports: %+v", keys)
	}
}

func TestKindsAndScalars(t *testing.T) {
	for path, want := range map[string]Kind{
		"spec": Struct, "metadata.labels": Map, "spec.containers": List, "spec.nodeName": Scalar,
		"spec.containers[].resources.limits": Map, "spec.volumes[].emptyDir": Struct,
	} {
		if got := At(path).Kind(); got != want {
			t.Errorf("%s is a %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]ScalarType{
		"spec.nodeName": String, "spec.hostNetwork": Boolean, "spec.priority": Number,
		"spec.containers[].ports[].containerPort": Number, "spec.volumes[].emptyDir.sizeLimit": Untyped,
		"spec.containers[].livenessProbe.httpGet.port": Untyped,
	} {
		if got := At(path).Scalar(); got != want {
			t.Errorf("%s holds %s, want %s", path, got, want)
		}
	}
}
