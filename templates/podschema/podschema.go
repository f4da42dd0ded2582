package podschema

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Kind tells what a JSON value of a [Type] looks like.
type Kind int

const (
	// Scalar is a string, number or boolean; [Type.Scalar] tells which.
	Scalar Kind = iota
	// Struct is an object with a fixed set of fields.
	Struct
	// Map is an object whose keys are data, such as labels.
	Map
	// List is an array.
	List
)

// String returns the kind's name as it reads in an error.
func (k Kind) String() string {
	return [...]string{"scalar", "object", "map", "list"}[k]
}

// ScalarType is what a scalar may hold.
type ScalarType string

const (
	// String accepts JSON strings.
	String ScalarType = "string"
	// Number accepts JSON numbers.
	Number ScalarType = "number"
	// Boolean accepts true and false.
	Boolean ScalarType = "boolean"
	// Untyped accepts any scalar: quantities and IntOrString, which may be
	// written as text or as a number, and timestamps.
	Untyped ScalarType = "untyped"
)

// Key is one field of a keyed list's merge key.
type Key struct {
	Name string
	// Default is the value that an item without the field has: a port's protocol
	// is TCP when absent. It is nil or "" where the field must be there.
	Default any
}

// Type is the schema of one value in a pod. Types are immutable and shared.
type Type struct {
	kind   Kind
	scalar ScalarType
	fields map[string]*Type
	names  []string
	elem   *Type
	keys   []Key
	set    bool
	atomic bool
}

// Kind returns what a value of this type looks like.
func (t *Type) Kind() Kind { return t.kind }

// Scalar returns what a value of kind [Scalar] may hold.
func (t *Type) Scalar() ScalarType { return t.scalar }

// Field returns the type of a [Struct]'s field, and whether it has that field.
func (t *Type) Field(name string) (*Type, bool) {
	f, ok := t.fields[name]
	return f, ok
}

// FieldNames returns a [Struct]'s fields in alphabetical order. The caller must
// not change the slice.
func (t *Type) FieldNames() []string { return t.names }

// Elem returns the type of a [Map]'s values or a [List]'s items.
func (t *Type) Elem() *Type { return t.elem }

// Keys returns the fields that tell one item of a keyed [List] from another,
// and nil for every other type. The caller must not change the slice.
func (t *Type) Keys() []Key { return t.keys }

// Set reports whether a [List] holds scalars that are each there at most once.
func (t *Type) Set() bool { return t.set }

// Atomic reports whether the API treats a list or object as one value.
func (t *Type) Atomic() bool { return t.atomic }

// Words names what a value of this type is, for messages.
func (t *Type) Words() string {
	switch t.kind {
	case Struct, Map:
		return "an object"
	case List:
		return "a list"
	}
	switch t.scalar {
	case String:
		return "text"
	case Number:
		return "a whole number"
	case Boolean:
		return "true or false"
	}
	return "text or a number"
}

// Pod returns the schema of a v1 Pod. The first call parses it, which takes
// some tens of milliseconds.
func Pod() *Type { return pod() }

var pod = sync.OnceValue(func() *Type {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(fmt.Sprintf("podschema: registering core/v1: %v", err))
	}
	typed, err := applyconfigurations.NewTypeConverter(scheme).ObjectToTyped(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}})
	if err != nil {
		panic(fmt.Sprintf("podschema: reading the schema of v1 Pod from client-go: %v", err))
	}
	b := builder{schema: typed.Schema(), named: map[string]*Type{}}
	return b.ref(typed.TypeRef())
})

type builder struct {
	schema *smd.Schema
	named  map[string]*Type
}

// ref builds the type that r refers to. A named type is built once, and is
// known by its name before its fields are, because types may contain themselves.
func (b *builder) ref(r smd.TypeRef) *Type {
	if r.NamedType != nil {
		if t, ok := b.named[*r.NamedType]; ok {
			return t
		}
		b.named[*r.NamedType] = &Type{}
	}
	atom, ok := b.schema.Resolve(r)
	if !ok {
		panic(fmt.Sprintf("podschema: client-go's schema has no type %v", r.NamedType))
	}
	t := &Type{}
	if r.NamedType != nil {
		t = b.named[*r.NamedType]
	}
	b.fill(t, atom)
	return t
}

func (b *builder) fill(t *Type, atom smd.Atom) {
	switch {
	// Untyped scalars also carry a map and a list in a schema; nothing in a pod
	// that is declared so holds either.
	case atom.Scalar != nil:
		t.kind, t.scalar = Scalar, scalarType(*atom.Scalar)
	case atom.List != nil:
		t.kind = List
		t.elem = b.ref(atom.List.ElementType)
		t.atomic = atom.List.ElementRelationship == smd.Atomic
		for _, name := range atom.List.Keys {
			t.keys = append(t.keys, Key{Name: name, Default: b.keyDefault(atom.List, name)})
		}
		t.set = !t.atomic && len(t.keys) == 0
	case atom.Map != nil && len(atom.Map.Fields) == 0:
		t.kind = Map
		t.elem = b.ref(atom.Map.ElementType)
		t.atomic = atom.Map.ElementRelationship == smd.Atomic
	default:
		t.kind = Struct
		t.fields = make(map[string]*Type, len(atom.Map.Fields))
		t.atomic = atom.Map.ElementRelationship == smd.Atomic
		for _, f := range atom.Map.Fields {
			t.fields[f.Name] = b.ref(f.Type)
			t.names = append(t.names, f.Name)
		}
		slices.Sort(t.names)
	}
}

// keyDefault returns the default of a key field as the item's schema has it.
func (b *builder) keyDefault(list *smd.List, name string) any {
	item, ok := b.schema.Resolve(list.ElementType)
	if !ok || item.Map == nil {
		return nil
	}
	f, ok := item.Map.FindField(name)
	if !ok {
		return nil
	}
	return f.Default
}

func scalarType(s smd.Scalar) ScalarType {
	switch s {
	case smd.String:
		return String
	case smd.Numeric:
		return Number
	case smd.Boolean:
		return Boolean
	default:
		return Untyped
	}
}
