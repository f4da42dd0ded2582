package podschema

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Kind is the form of the JSON values of a [Type].
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

// ScalarType is the type of a scalar.
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
	Name string `json:"name"`
	// Default is the value of an absent field: a port's protocol is TCP. It is nil or "" if the field is
	// required.
	Default any `json:"default"`
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
	means  meaning
}

// Kind returns the form of the values of this type.
func (t *Type) Kind() Kind { return t.kind }

// Scalar returns the scalar type of a type of kind [Scalar].
func (t *Type) Scalar() ScalarType { return t.scalar }

// Field returns the type of a [Struct]'s field. It reports false for an unknown field.
func (t *Type) Field(name string) (*Type, bool) {
	f, ok := t.fields[name]
	return f, ok
}

// FieldNames returns a [Struct]'s fields in alphabetical order. The caller must
// not change the slice.
func (t *Type) FieldNames() []string { return t.names }

// Elem returns the type of a [Map]'s values or a [List]'s items.
func (t *Type) Elem() *Type { return t.elem }

// Keys returns the key fields of a keyed [List], nil for any other type. The caller must not change the slice.
func (t *Type) Keys() []Key { return t.keys }

// Set reports whether a [List] has unique scalars as its items.
func (t *Type) Set() bool { return t.set }

// Atomic reports whether the API treats a list or object as one value.
func (t *Type) Atomic() bool { return t.atomic }

// Words describes a value of this type in words, for messages.
func (t *Type) Words() string {
	switch t.kind {
	case Struct, Map:
		return "an object"
	case List:
		return "a list"
	}
	switch {
	case t.means.quantity:
		return "a quantity such as 64Mi or 100m"
	case t.means.intOrString:
		return "a port's number or name"
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

// Pod returns the schema of a v1 Pod.
func Pod() *Type { return pod() }

// podTypes are the types of a pod, the pod's first, as client-go has them. The whole schema
// of client-go is that of all API groups: 5 MB of the program, a tenth of a second and some
// MB of memory to parse. The test of this file writes the pod's part of it, and compares.
//
//go:embed pod.json
var podTypes []byte

var pod = sync.OnceValue(func() *Type {
	types, err := readTypes(podTypes)
	if err != nil {
		panic(fmt.Sprintf("podschema: reading the embedded schema of a pod: %v", err))
	}
	setMeanings(types[0])
	return types[0]
})

// stored is a type in [podTypes]. It refers to others by their index.
type stored struct {
	Kind   Kind           `json:"kind"`
	Scalar ScalarType     `json:"scalar,omitempty"`
	Fields map[string]int `json:"fields,omitempty"`
	Elem   int            `json:"elem,omitempty"`
	Keys   []Key          `json:"keys,omitempty"`
	Set    bool           `json:"set,omitempty"`
	Atomic bool           `json:"atomic,omitempty"`
}

// readTypes reads the file that this package's test writes.
func readTypes(data []byte) ([]*Type, error) {
	var all []stored
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	types := make([]*Type, len(all))
	for i := range types {
		types[i] = &Type{}
	}
	for i, s := range all {
		*types[i] = Type{kind: s.Kind, scalar: s.Scalar, keys: s.Keys, set: s.Set, atomic: s.Atomic, names: slices.Sorted(maps.Keys(s.Fields))}
		if s.Kind == Struct {
			types[i].fields = make(map[string]*Type, len(s.Fields))
		}
		for name, at := range s.Fields {
			types[i].fields[name] = types[at]
		}
		if s.Kind == Map || s.Kind == List {
			types[i].elem = types[s.Elem]
		}
	}
	return types, nil
}
