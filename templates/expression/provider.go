package expression

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// provider declares the types of params, variables and the pod. An expression that reads an undeclared field
// does not compile. Its variables grow with each compiled variable.
type provider struct {
	types.Provider
	params    map[string]*cel.Type
	variables map[string]*cel.Type
	// missed has the type of each unknown field that was read, by field.
	missed map[string]string
}

func newProvider(base types.Provider, params map[string]*cel.Type) *provider {
	return &provider{Provider: base, params: params, variables: map[string]*cel.Type{}, missed: map[string]string{}}
}

func (p *provider) fields(typeName string) (map[string]*cel.Type, bool) {
	switch typeName {
	case paramsType:
		return p.params, true
	case variablesType:
		return p.variables, true
	}
	fields, ok := podTypesOnce().fields[typeName]
	return fields, ok
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.fields(name); ok {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := p.fields(name); ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := p.fields(name)
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	if !ok {
		p.missed[field] = name
		return nil, false
	}
	return &types.FieldType{Type: t}, true
}

// object is the value of params or of variables for one render.
type object struct {
	typ   *types.Type
	names []string
	has   func(name string) bool
	get   func(name string) (any, error)
}

var (
	paramsValueType    = cel.ObjectType(paramsType, traits.IndexerType, traits.FieldTesterType)
	variablesValueType = cel.ObjectType(variablesType, traits.IndexerType, traits.FieldTesterType)
)

// ConvertToNative implements [ref.Val].
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot become %v", o.typ.TypeName(), t)
}

// ConvertToType implements [ref.Val].
func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.typ
	}
	return types.NewErr("%s cannot become %s", o.typ.TypeName(), t.TypeName())
}

// Equal implements [ref.Val].
func (o *object) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(o) == other) }

// Type implements [ref.Val].
func (o *object) Type() ref.Type { return o.typ }

// Value implements [ref.Val].
func (o *object) Value() any { return o }

// IsSet implements [traits.FieldTester].
func (o *object) IsSet(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	return types.Bool(ok && o.has(string(name)))
}

// Get implements [traits.Indexer].
func (o *object) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.NewErr("no such field: %v", index)
	}
	v, err := o.get(string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return adapt(v)
}
