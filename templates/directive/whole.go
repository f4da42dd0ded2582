package directive

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// wholePaths are the objects whose parts make no sense beside the parts of
// another: a variable has a value or a source, a volume has one source, a profile
// a type and a name.
var wholePaths = []string{
	"spec.containers[].env[]",
	"spec.containers[].volumeMounts[]",
	"spec.volumes[]",
	"spec.securityContext.sysctls[]",
	"spec.dnsConfig.options[]",
	"spec.securityContext.seccompProfile",
	"spec.securityContext.appArmorProfile",
}

// Whole reports whether the merge compares and replaces objects of type t as one
// value: the API declares the struct atomic, or t is one of the objects above. Types that
// this build's schema does not know (nil) are not.
func Whole(t *podschema.Type) bool {
	return t != nil && (t.Kind() == podschema.Struct && t.Atomic() || wholeTypes()[t])
}

var wholeTypes = sync.OnceValue(func() map[*podschema.Type]bool {
	types := map[*podschema.Type]bool{}
	for _, path := range wholePaths {
		t := podschema.Pod()
		for step := range strings.SplitSeq(path, ".") {
			name, item := strings.CutSuffix(step, "[]")
			field, ok := t.Field(name)
			if !ok {
				panic(fmt.Sprintf("directive: the pod's schema has no %s", path))
			}
			if t = field; item {
				t = t.Elem()
			}
		}
		types[t] = true
	}
	return types
})
