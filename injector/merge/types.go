package merge

import (
	"strings"
	"sync"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// The types of a pod for which the merge has rules of its own.
var (
	resourcesType = typeOf("spec.containers[].resources")
	volumesType   = typeOf("spec.volumes")
	quantityType  = typeOf("spec.containers[].resources.limits.*")

	annotationType = typeOf("metadata.annotations.*")
	variableType   = typeOf("spec.containers[].env[]")
)

// typeOf returns the type at a path of the schema; .* is the values of a map.
func typeOf(path string) func() *podschema.Type {
	return sync.OnceValue(func() *podschema.Type {
		if of, ok := strings.CutSuffix(path, ".*"); ok {
			return podschema.At(of).Elem()
		}
		return podschema.At(path)
	})
}

// staysTypes are the maps and lists where the pod's value is used, not the template's.
var staysTypes = sync.OnceValue(func() map[*podschema.Type]bool {
	types := map[*podschema.Type]bool{}
	for _, path := range []string{"metadata.labels", "metadata.annotations", "spec.containers[].env", "spec.containers[].volumeMounts"} {
		types[podschema.At(path)] = true
	}
	return types
})
