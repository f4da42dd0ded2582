package podschema

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// meaning has the facts about a type that the schema lacks.
type meaning struct {
	// container, resources and intOrString mark three types: a container of a pod, its resources, and a port
	// that is a number or a name.
	container, resources, intOrString bool
	// quantity is set for a quantity, numbers for a number with bounds.
	quantity bool
	numbers  numbers
	// value is set for a type that is compared and replaced as a whole.
	value bool
	// gathers is set for a [Gathered] list. keys has the field that identifies an item, or is nil if the whole
	// item does.
	gathers bool
	keys    []Key
	// unions are fields that exclude each other.
	unions []string
	// defaults has the default of each field, computed from the object around it.
	defaults map[string]func(object map[string]any) any
}

// Objects whose parts depend on each other: an environment variable has a value or a source, a volume has one
// source, a profile has a type and a name for it.
var valuePaths = []string{
	"spec.containers[].env[]",
	"spec.containers[].volumeMounts[]",
	"spec.volumes[]",
	"spec.securityContext.sysctls[]",
	"spec.dnsConfig.options[]",
	"spec.securityContext.seccompProfile",
	"spec.securityContext.appArmorProfile",
}

// Objects with fields that exclude each other. The schema of client-go lacks this.
var unionPaths = map[string][]string{
	"spec.containers[].livenessProbe":       {"exec", "grpc", "httpGet", "tcpSocket"},
	"spec.containers[].lifecycle.postStart": {"exec", "httpGet", "sleep", "tcpSocket"},
}

// setMeanings sets the meaning of each type of a pod.
func setMeanings(pod *Type) {
	typeAt(pod, "spec.containers[]").means.container = true
	typeAt(pod, "spec.containers[].resources").means.resources = true
	setScalars(pod)
	for path, name := range Gathered {
		t := typeAt(pod, path)
		if t.means.gathers = true; name != "" {
			t.means.keys = []Key{{Name: name}}
		}
	}
	for _, path := range valuePaths {
		typeAt(pod, path).means.value = true
	}
	for path, fields := range unionPaths {
		typeAt(pod, path).means.unions = fields
	}
	for path, value := range fixed {
		setDefault(pod, path, func(map[string]any) any { return value })
	}
	for path, value := range derived {
		setDefault(pod, path, value)
	}
}

// At returns the type at a path of the schema, such as spec.containers[].env[]. It panics for an unknown path,
// because paths are constants of the program.
func At(path string) *Type { return typeAt(Pod(), path) }

func typeAt(t *Type, path string) *Type {
	for step := range strings.SplitSeq(path, ".") {
		name, item := strings.CutSuffix(step, "[]")
		field, ok := t.Field(name)
		if !ok {
			panic(fmt.Sprintf("podschema: the schema of a pod has no %s", path))
		}
		if t = field; item {
			t = t.Elem()
		}
	}
	return t
}

// Child returns the type of an object's field or of a map's value. It returns nil for a nil t and for an
// unknown field.
func (t *Type) Child(name string) *Type {
	if t == nil {
		return nil
	}
	if t.kind == Map {
		return t.elem
	}
	return t.fields[name]
}

// Unions returns the fields of t that exclude each other, such as the handlers of a probe. The caller must not
// change the slice.
func (t *Type) Unions() []string {
	if t == nil {
		return nil
	}
	return t.means.unions
}

// IsContainer reports whether t is a container of a pod's containers or
// initContainers.
func (t *Type) IsContainer() bool { return t != nil && t.means.container }

// IsValue reports whether a value of type t is compared and replaced as a whole. It reports true for an unknown
// type.
func (t *Type) IsValue() bool {
	if t == nil || t.means.value {
		return true
	}
	switch t.kind {
	case Scalar:
		return true
	case List:
		_, ok := t.Identity()
		return !ok
	case Struct:
		return t.atomic
	default:
		return false
	}
}

// IsOneAddition reports whether a value of type t is added to a pod as one value, and not field by field: a
// value, or an object with a union.
func (t *Type) IsOneAddition() bool { return t.IsValue() || t.means.unions != nil }

// Identity has the way in which the items of a list are identified: by key fields, or in a set by their whole
// value.
type Identity struct {
	Keys []Key
	Elem *Type
}

// Identity returns the identity of a list's items. It reports false for any other type, and for a list without
// it.
func (t *Type) Identity() (Identity, bool) {
	if t == nil || t.kind != List {
		return Identity{}, false
	}
	if t.means.gathers || t.set {
		return Identity{Keys: t.means.keys, Elem: t.elem}, true
	}
	return Identity{Keys: t.keys, Elem: t.elem}, len(t.keys) > 0
}

// Set reports whether items are identified by their values.
func (id Identity) Set() bool { return len(id.Keys) == 0 }

// Key returns the key of an item in its list: name=web; containerPort=53,protocol=UDP; and in a set "=" and the
// item's canonical JSON. It reports false for an item without a name or with a wrong shape, which is never
// matched and never changed.
func (id Identity) Key(item any) (string, bool) {
	if id.Set() {
		return "=" + Canonical(id.Elem, item), true
	}
	object, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	return id.KeyOf(object)
}

// KeyOf is [Identity.Key] for an item that has only the key fields.
func (id Identity) KeyOf(fields map[string]any) (string, bool) {
	var room [64]byte
	key, ok := id.appendFields(room[:0], fields)
	if !ok {
		return "", false
	}
	return string(key), true
}

// AppendKey appends the item's [Identity.Key] to b. If it reports false, the appended bytes are meaningless.
func (id Identity) AppendKey(b []byte, item any) ([]byte, bool) {
	if id.Set() {
		return AppendCanonical(append(b, '='), id.Elem, item), true
	}
	object, ok := item.(map[string]any)
	if !ok {
		return b, false
	}
	return id.appendFields(b, object)
}

// appendFields is AppendKey for a list with key fields. The buffer can stay on the caller's stack.
func (id Identity) appendFields(b []byte, object map[string]any) ([]byte, bool) {
	for i, k := range id.Keys {
		value, ok := keyText(k.Value(object))
		if !ok {
			return b, false
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, k.Name...), '=')
		if len(id.Keys) > 1 {
			value = commaEscaper.Replace(value)
		}
		b = append(b, value...)
	}
	return b, true
}

// IndexIn returns the index in a list of the item with each key. Authors may repeat an item, as in
// environments: the last one counts. IndexIn walks the list once, and needs memory for the keys alone.
func IndexIn[V any](id Identity, items []any, keys map[string]V) map[string]int {
	if len(keys) == 0 {
		return nil
	}
	index := make(map[string]int, min(len(keys), len(items)))
	for i, key := range KeysIn(id, items, keys) {
		index[key] = i
	}
	return index
}

// KeysIn yields the index and the key of each item that has one of the keys, in the
// order of the list.
func KeysIn[V any](id Identity, items []any, keys map[string]V) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		if len(keys) == 0 {
			return
		}
		var room [64]byte
		b := room[:0]
		for i, item := range items {
			var ok bool
			if b, ok = id.AppendKey(b[:0], item); !ok {
				continue
			}
			if _, wanted := keys[string(b)]; wanted && !yield(i, string(b)) {
				return
			}
		}
	}
}

// commaEscaper separates the values of a key with several fields.
var commaEscaper = strings.NewReplacer("~", "~0", ",", "~2")

// Value returns the item's value of the field, or the default of an absent field.
func (k Key) Value(item map[string]any) any {
	if v := item[k.Name]; v != nil {
		return v
	}
	return k.Default
}

func keyText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return canonicalNumber(string(v)), true
	default:
		return "", false
	}
}

// IsWhole reports whether objects of type t are compared and replaced as one value: the API declares the struct
// atomic, or its parts depend on each other. It reports false for an unknown type (nil).
func (t *Type) IsWhole() bool {
	return t != nil && (t.kind == Struct && t.atomic || t.means.value)
}
