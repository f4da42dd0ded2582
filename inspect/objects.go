package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/owner"
)

// ObjectKinds are the kinds that commands accept: pods, workloads and namespaces.
var ObjectKinds = slices.Concat(
	[]owner.Resource{{GroupVersionResource: PodsResource, Kind: "Pod", Short: "pod"}},
	owner.Kinds,
	[]owner.Resource{{GroupVersionResource: NamespacesResource, Kind: "Namespace", Short: "ns"}},
)

// ObjectKindOf returns the kind for a name, as kubectl does: the resource, its singular or short
// name, and the first two with the group or with version and group.
func ObjectKindOf(name string) (owner.Resource, bool) {
	name = strings.ToLower(name)
	if name == "po" {
		name = "pods"
	}
	for _, k := range ObjectKinds {
		if name == k.Short {
			return k, true
		}
		for _, plain := range []string{k.Resource, strings.ToLower(k.Kind)} {
			if name == plain || k.Group != "" && (name == plain+"."+k.Group || name == plain+"."+k.Version+"."+k.Group) {
				return k, true
			}
		}
	}
	return owner.Resource{}, false
}

// Object is an object in the arguments of a command.
type Object struct {
	owner.Resource
	Name string
}

// ParseObjects reads KIND/NAME…, or KIND NAME….
func ParseObjects(args []string) ([]Object, error) {
	var all []Object
	for i := 0; i < len(args); i++ {
		kind, name, qualified := strings.Cut(args[i], "/")
		of, known := ObjectKindOf(kind)
		switch {
		case !known && !qualified:
			return nil, UsageError{fmt.Errorf("%q is not a kind; name an object with its kind: pod/%[1]s, deploy/%[1]s, sts/%[1]s, ds/%[1]s, rs/%[1]s, rc/%[1]s, job/%[1]s, cj/%[1]s or ns/%[1]s", kind)}
		case !known:
			var kinds []string
			for _, k := range ObjectKinds {
				kinds = append(kinds, k.Short)
			}
			return nil, UsageError{fmt.Errorf("explain does not support the kind %q; allowed are %s", kind, strings.Join(kinds, ", "))}
		case qualified && name == "", !qualified && (i > 0 || len(args) == 1):
			return nil, UsageError{fmt.Errorf("%q has no name: %s/NAME", args[i], kind)}
		case strings.Contains(name, "/"):
			return nil, UsageError{fmt.Errorf("%q is no name of an object: %s/NAME", args[i], kind)}
		case qualified:
			all = append(all, Object{of, name})
			continue
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, UsageError{fmt.Errorf("%s %s: give KIND NAME, or KIND/NAME for each", args[0], name)}
			}
			all = append(all, Object{of, name})
		}
		return all, nil
	}
	return all, nil
}
