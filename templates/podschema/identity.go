package podschema

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// meaning is what the schema does not say about a type.
type meaning struct {
	// container, resources and intOrString tell three types: a container of a pod, what it asks
	// for, and a port that is a number or a name.
	container, resources, intOrString bool
	// value: it is compared and replaced as a whole.
	value bool
	// gathers: it is one of the [Gathered] lists. Keys has the field that names an item, and is
	// nil where all of the item does.
	gathers bool
	keys    []Key
	// unions are the fields of which at most one may be set.
	unions []string
	// defaults are those of the fields that have one, for the object around the field.
	defaults map[string]func(object map[string]any) any
}

// Parts of these make no sense beside parts of another one: an environment
// variable has a value or a source, a volume has one source, a profile has a
// type and the name that goes with it.
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

// giveMeaning gives each type of a pod its meaning.
func giveMeaning(pod *Type) {
	typeAt(pod, "spec.containers[]").means.container = true
	typeAt(pod, "spec.containers[].resources").means.resources = true
	typeAt(pod, "spec.containers[].livenessProbe.httpGet.port").means.intOrString = true
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
		giveDefault(pod, path, func(map[string]any) any { return value })
	}
	for path, value := range derived {
		giveDefault(pod, path, value)
	}
}

// At returns the type at a path of the schema such as spec.containers[].env[].
// It panics for a path that the schema does not have: the path is a constant of
// the program.
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

// Child returns the type of an object's field or of a map's value. It is nil
// where t is nil and for fields that this build's schema does not know.
func (t *Type) Child(name string) *Type {
	if t == nil {
		return nil
	}
	if t.kind == Map {
		return t.elem
	}
	return t.fields[name]
}

// Unions returns the fields of t of which at most one may be set, such as the
// handlers of a probe. The caller must not change the slice.
func (t *Type) Unions() []string {
	if t == nil {
		return nil
	}
	return t.means.unions
}

// IsContainer reports whether t is a container of a pod's containers or
// initContainers.
func (t *Type) IsContainer() bool { return t != nil && t.means.container }

// IsValue reports whether a value of type t is compared and replaced as a
// whole. Fields that this build does not know are.
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

// IsOneAddition reports whether t, where a pod has none, is added as one value
// rather than as the sum of its parts: values, and objects with a union.
func (t *Type) IsOneAddition() bool { return t.IsValue() || t.means.unions != nil }

// Identity says how the items of a list are told apart: by key fields, or, in a
// set, by their whole value.
type Identity struct {
	Keys []Key
	Elem *Type
}

// Identity reports false for everything but lists whose items are told apart.
func (t *Type) Identity() (Identity, bool) {
	if t == nil || t.kind != List {
		return Identity{}, false
	}
	if t.means.gathers || t.set {
		return Identity{Keys: t.means.keys, Elem: t.elem}, true
	}
	return Identity{Keys: t.keys, Elem: t.elem}, len(t.keys) > 0
}

// Set reports whether no fields name the items, but their values.
func (id Identity) Set() bool { return len(id.Keys) == 0 }

// Key returns the name of an item among the items of its list, and false if it
// has none: a nameless or malformed item is never matched and never changed.
// Keys are name=web; containerPort=53,protocol=UDP; and for an item of a set
// "=" and its canonical JSON.
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

// KeyOf is [Identity.Key] for an item of a list with key fields, which may have no others.
func (id Identity) KeyOf(fields map[string]any) (string, bool) {
	var room [64]byte
	key, ok := id.appendFields(room[:0], fields)
	if !ok {
		return "", false
	}
	return string(key), true
}

// AppendKey appends the item's [Identity.Key] to b. It appends something of no use
// where it reports false.
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

// IndexIn returns the index of the item that each of the keys means in a list. An
// author may have an item twice, as environments do. Then the key means the last
// one, which is the one that counts. The cost is one walk over the list, and memory
// for the keys alone.
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

// commaEscaper keeps the values of a key with several fields apart.
var commaEscaper = strings.NewReplacer("~", "~0", ",", "~2")

// Value returns the value that an item has of the field, or what its absence stands for.
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

// IsWhole reports whether objects of type t are compared and replaced as one
// value: the API declares the struct atomic, or its parts make no sense beside
// parts of another. It is false for types that this build does not know (nil).
func (t *Type) IsWhole() bool {
	return t != nil && (t.kind == Struct && t.atomic || t.means.value)
}
