package merge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// shapes is what the merge knows of a pod's types beyond the schema: product
// decisions, by the types that the paths below lead to.
type shapes struct {
	pod       *podschema.Type
	container *podschema.Type // an item of containers and initContainers
	resources *podschema.Type
	volumes   *podschema.Type

	intOrString *podschema.Type
	quantity    *podschema.Type

	sets   map[*podschema.Type]string // atomic lists that mean sets, and what names an item ("": all of it)
	values map[*podschema.Type]bool   // objects and items that are compared and replaced as one value
	added  map[*podschema.Type]bool   // objects that are one value if the pod had none
	unions map[*podschema.Type][]string
	stays  map[*podschema.Type]bool // where the pod's own value stays
}

// Parts of these make no sense beside parts of another: an environment variable
// has a value or a source, a volume one source, a profile a type and its name.
var valuePaths = []string{
	"spec.containers[].env[]",
	"spec.containers[].volumeMounts[]",
	"spec.volumes[]",
	"spec.securityContext.sysctls[]",
	"spec.dnsConfig.options[]",
	"spec.securityContext.seccompProfile",
	"spec.securityContext.appArmorProfile",
}

// Objects of which at most one of some fields may be set. The schema that
// client-go carries does not say so.
var unionPaths = map[string][]string{
	"spec.containers[].livenessProbe":       {"exec", "grpc", "httpGet", "tcpSocket"},
	"spec.containers[].lifecycle.postStart": {"exec", "httpGet", "sleep", "tcpSocket"},
}

var staysPaths = []string{
	"metadata.labels", "metadata.annotations", "spec.containers[].env", "spec.containers[].volumeMounts",
}

var known = sync.OnceValue(func() *shapes {
	s := &shapes{
		pod: podschema.Pod(), container: typeAt("spec.containers[]"), resources: typeAt("spec.containers[].resources"),
		volumes: typeAt("spec.volumes"), intOrString: typeAt("spec.containers[].livenessProbe.httpGet.port"),
		quantity: typeAt("spec.containers[].resources.limits").Elem(),
		sets:     map[*podschema.Type]string{}, values: map[*podschema.Type]bool{}, added: map[*podschema.Type]bool{},
		unions: map[*podschema.Type][]string{}, stays: map[*podschema.Type]bool{},
	}
	for path, name := range podschema.Gathered {
		s.sets[typeAt(path)] = name
	}
	for _, path := range valuePaths {
		s.values[typeAt(path)] = true
	}
	for path, fields := range unionPaths {
		s.unions[typeAt(path)] = fields
		s.added[typeAt(path)] = true
	}
	for _, path := range staysPaths {
		s.stays[typeAt(path)] = true
	}
	return s
})

// typeAt returns the type at a path of the schema such as
// spec.containers[].env[]. A path that the schema does not have is a mistake in
// this package's lists.
func typeAt(path string) *podschema.Type {
	t := podschema.Pod()
	for _, step := range strings.Split(path, ".") {
		name, item := strings.CutSuffix(step, "[]")
		field, ok := t.Field(name)
		if !ok {
			panic(fmt.Sprintf("merge: the pod's schema has no %s", path))
		}
		if t = field; item {
			t = t.Elem()
		}
	}
	return t
}

// child returns the type of an object's field or a map's value, and nil for
// what this build's schema does not know.
func child(t *podschema.Type, name string) *podschema.Type {
	if t == nil {
		return nil
	}
	if t.Kind() == podschema.Map {
		return t.Elem()
	}
	f, ok := t.Field(name)
	if !ok {
		return nil
	}
	return f
}

// identity is how the items of a list are told apart: by key fields, or, in a
// set, by their whole value.
type identity struct {
	keys []podschema.Key
	elem *podschema.Type
}

// identityOf reports false for lists that are one value.
func (s *shapes) identityOf(t *podschema.Type) (identity, bool) {
	if t == nil || t.Kind() != podschema.List {
		return identity{}, false
	}
	if name, ok := s.sets[t]; ok && name != "" {
		return identity{keys: []podschema.Key{{Name: name}}, elem: t.Elem()}, true
	} else if ok || t.Set() {
		return identity{elem: t.Elem()}, true
	}
	return identity{keys: t.Keys(), elem: t.Elem()}, len(t.Keys()) > 0
}

// set reports whether items have no fields that name them.
func (id identity) set() bool { return len(id.keys) == 0 }

// key returns what names an item, unescaped, and false if nothing does: a
// nameless or malformed item is never matched and never changed.
func (id identity) key(item any) (string, bool) {
	if id.set() {
		return "=" + canonical(id.elem, item), true
	}
	object, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	parts := make([]string, len(id.keys))
	for i, k := range id.keys {
		value, ok := keyText(k, object[k.Name])
		if !ok {
			return "", false
		}
		if len(id.keys) > 1 {
			value = commaEscaper.Replace(value)
		}
		parts[i] = k.Name + "=" + value
	}
	return strings.Join(parts, ","), true
}

func keyText(k podschema.Key, v any) (string, bool) {
	if v == nil {
		v = k.Default
	}
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return canonicalNumber(string(v)), true
	default:
		return "", false
	}
}

// isValue reports whether t is compared and replaced as a whole.
func (s *shapes) isValue(t *podschema.Type) bool {
	if t == nil || s.values[t] {
		return true
	}
	switch t.Kind() {
	case podschema.Scalar:
		return true
	case podschema.List:
		_, ok := s.identityOf(t)
		return !ok
	case podschema.Struct:
		return t.Atomic()
	default:
		return false
	}
}

// isAddedWhole reports whether t, where the pod has none, is one item rather
// than the sum of what is in it.
func (s *shapes) isAddedWhole(t *podschema.Type) bool { return s.isValue(t) || s.added[t] }

// blank reports whether merging v could not change anything: rendering leaves
// empty maps and lists behind where conditions were false.
func (s *shapes) blank(t *podschema.Type, v any) bool {
	if v == nil {
		return true
	}
	if s.isAddedWhole(t) {
		return false
	}
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		if v[unsetKey] != nil || v[patchKey] != nil {
			return false
		}
		for _, name := range fieldsOf(v) {
			if !s.blank(child(t, name), v[name]) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// fieldsOf returns the fields that a fragment's object sets, in order, without
// its directives and without nulls, which set nothing.
func fieldsOf(frag map[string]any) []string {
	names := make([]string, 0, len(frag))
	for name, v := range frag {
		if v != nil && !strings.HasPrefix(name, "$") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
