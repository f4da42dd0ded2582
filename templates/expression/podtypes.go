package expression

import (
	"cmp"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// podTypes gives CEL's checker the pod's schema, so that an expression that reads an unknown field does not
// compile.
type podTypes struct {
	// fields has the fields of each object type, by the type's name, which is its first path, such as
	// pod/spec/containers. It has slashes, because CEL would read pod.spec.containers in an expression as the
	// type.
	fields map[string]map[string]*cel.Type
	// of has the CEL type of each type of the schema.
	of map[*podschema.Type]*cel.Type
}

const (
	podType               = "pod"
	namespaceType         = "namespaceObject"
	namespaceMetadataType = "namespaceObject/metadata"
)

var podTypesOnce = sync.OnceValue(func() *podTypes {
	labels := cel.MapType(cel.StringType, cel.StringType)
	p := &podTypes{of: map[*podschema.Type]*cel.Type{}, fields: map[string]map[string]*cel.Type{
		namespaceType:         {"metadata": cel.ObjectType(namespaceMetadataType)},
		namespaceMetadataType: {"name": cel.StringType, "labels": labels, "annotations": labels},
	}}
	p.add(podschema.Pod(), podType)
	// The managedFields are half of an ordinary pod, and the webhook does not decode them.
	delete(p.fields[podType+"/metadata"], "managedFields")
	return p
})

// add returns the CEL type of t, found at the path where.
func (p *podTypes) add(t *podschema.Type, where string) *cel.Type {
	if known, ok := p.of[t]; ok {
		return known
	}
	switch t.Kind() {
	case podschema.Struct:
		if len(t.FieldNames()) == 0 {
			return cel.DynType
		}
		object := cel.ObjectType(where)
		// The type is stored before its fields, because types may contain themselves.
		p.of[t], p.fields[where] = object, map[string]*cel.Type{}
		for _, name := range t.FieldNames() {
			field, _ := t.Field(name)
			p.fields[where][name] = p.add(field, where+"/"+name)
		}
		return object
	case podschema.Map:
		return cel.MapType(cel.StringType, p.add(t.Elem(), where))
	case podschema.List:
		return cel.ListType(p.add(t.Elem(), where))
	}
	switch t.Scalar() {
	case podschema.String:
		return cel.StringType
	case podschema.Number:
		return cel.IntType
	case podschema.Boolean:
		return cel.BoolType
	}
	return cel.DynType
}

// typeInPod returns the CEL type of a part of the pod.
func typeInPod(t *podschema.Type) *cel.Type {
	return cmp.Or(podTypesOnce().of[t], cel.DynType)
}
