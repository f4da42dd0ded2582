package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// crdName is the name of the CRD with the default prefix.
const crdName = "sidecartemplates.pillion.dev"

func TestTheCRDsSchemaHasExactlyTheFieldsOfTheGoTypes(t *testing.T) {
	t.Parallel()
	var crd apiextensionsv1.CustomResourceDefinition
	expectNoError(t, json.Unmarshal([]byte(must(t, "", "kubectl", "get", "crd", crdName, "-o", "json")), &crd))
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != v1alpha1.Version || crd.Spec.Names.Kind != v1alpha1.Kind {
		t.Fatalf("the CRD is\n%s", pretty(crd.Spec))
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.NonStructuralSchema && c.Status == apiextensionsv1.ConditionTrue {
			t.Errorf("the schema is not structural: %s", c.Message)
		}
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name, goType := range map[string]reflect.Type{
		"spec":   reflect.TypeFor[v1alpha1.SidecarTemplateSpec](),
		"status": reflect.TypeFor[v1alpha1.SidecarTemplateStatus](),
	} {
		property, ok := schema.Properties[name]
		if !ok {
			t.Errorf("the schema has no %s", name)
			continue
		}
		for _, difference := range compare(name, property, goType) {
			t.Error(difference)
		}
	}
}

// compare lists the differences between a schema and the JSON form of a Go type.
func compare(path string, schema apiextensionsv1.JSONSchemaProps, goType reflect.Type) []string {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	free := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	ownForm := reflect.PointerTo(goType).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case goType == reflect.TypeFor[json.RawMessage]():
		if !free && !schema.XIntOrString {
			return []string{path + ": any JSON in Go, and the schema prunes it"}
		}
		return nil
	case goType.Kind() == reflect.Slice:
		if schema.Type != "array" || schema.Items == nil || schema.Items.Schema == nil {
			return []string{fmt.Sprintf("%s: a list in Go, and %q in the schema", path, schema.Type)}
		}
		return compare(path+"[]", *schema.Items.Schema, goType.Elem())
	case goType.Kind() == reflect.Map:
		if schema.AdditionalProperties == nil || schema.AdditionalProperties.Schema == nil {
			return []string{path + ": a map in Go, and the schema has no additionalProperties"}
		}
		return compare(path+".*", *schema.AdditionalProperties.Schema, goType.Elem())
	case goType.Kind() == reflect.Struct && ownForm:
		return nil // more than one JSON form: the loader is what judges it
	case goType.Kind() == reflect.Struct:
		return compareFields(path, schema, goType)
	}
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int32: "integer", reflect.Int64: "integer"}[goType.Kind()]
	if schema.Type != want {
		return []string{fmt.Sprintf("%s: %s in Go, and %q in the schema", path, goType, schema.Type)}
	}
	return nil
}

func compareFields(path string, schema apiextensionsv1.JSONSchemaProps, goType reflect.Type) []string {
	var differences []string
	fields := jsonFields(goType)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		property, ok := schema.Properties[name]
		if !ok {
			differences = append(differences, fmt.Sprintf("%s.%s: in Go, and not in the schema: the API server drops it", path, name))
			continue
		}
		differences = append(differences, compare(path+"."+name, property, fields[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if _, ok := fields[name]; !ok {
			differences = append(differences, fmt.Sprintf("%s.%s: in the schema, and not in Go", path, name))
		}
	}
	return differences
}

// jsonFields are the fields of a struct by their JSON names, those of inlined structs too.
func jsonFields(goType reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range goType.NumField() {
		field := goType.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if options == "inline" || field.Anonymous && name == "" {
			maps.Copy(fields, jsonFields(field.Type))
			continue
		}
		if name != "" && name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}
