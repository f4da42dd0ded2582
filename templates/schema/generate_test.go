package schema_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

var update = flag.Bool("update", false, "write the schema anew")

//go:embed sidecartemplate.json
var committed []byte

// object is a JSON Schema, or a part of one.
type object = map[string]any

func TestTheSchemaFollowsTheTypes(t *testing.T) {
	made := generate(t)
	if *update {
		errtest.ExpectNone(t, os.WriteFile("sidecartemplate.json", made, 0o600))
		return
	}
	if !bytes.Equal(made, committed) {
		t.Error("sidecartemplate.json is not what the types say; go generate ./templates/schema writes it")
	}
}

// generate makes the schema. Each definition is one line.
func generate(t *testing.T) []byte {
	t.Helper()
	g := generator{defs: map[string]object{}, names: map[*podschema.Type]string{}}
	g.readSource(t)
	spec := g.goType(reflect.TypeFor[v1alpha1.SidecarTemplateSpec]())
	inject := spec["properties"].(object)["inject"].(object)
	spec["if"] = object{"properties": object{"allowUnknownFields": object{"const": true}}, "required": []string{"allowUnknownFields"}}
	spec["else"] = object{"properties": object{"inject": ref("fragment")}}
	inject["type"] = "object"
	g.fragment()
	g.defs["spec"] = spec
	g.defs["metadata"] = object{"type": "object", "required": []string{"name"}, "properties": object{
		"name": object{"type": "string", "maxLength": 63, "pattern": `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`, "description": "A DNS label: it names the parameter annotations."},
	}}
	var out bytes.Buffer
	line := func(v any) string {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		errtest.ExpectNone(t, e.Encode(v))
		return strings.TrimSpace(text.String())
	}
	fmt.Fprintf(&out, "{\n\"$schema\": \"http://json-schema.org/draft-07/schema#\",\n\"title\": \"SidecarTemplate\",\n\"type\": \"object\",\n\"required\": %s,\n\"properties\": %s,\n\"additionalProperties\": false,\n\"definitions\": {\n",
		line([]string{"apiVersion", "kind", "metadata", "spec"}),
		line(object{
			"apiVersion": object{"type": "string", "pattern": "^[a-z0-9.-]+/" + v1alpha1.Version + "$", "description": "The annotation prefix of the installation, pillion.dev by default, and /" + v1alpha1.Version + "."},
			"kind":       object{"enum": []string{v1alpha1.Kind, v1alpha1.NamespacedKind}}, "metadata": ref("metadata"), "spec": ref("spec"), "status": object{"type": "object"},
		}))
	names := slices.Sorted(maps.Keys(g.defs))
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(&out, "%s: %s%s\n", line(name), line(g.defs[name]), comma)
	}
	out.WriteString("}\n}\n")
	return out.Bytes()
}

func ref(name string) object { return object{"$ref": "#/definitions/" + name} }

type generator struct {
	defs map[string]object
	// docs are the comments of fields, by TYPE.FIELD, and enums the constants of types.
	docs  map[string]string
	enums map[string][]string
	// names are the definitions of the pod's types.
	names map[*podschema.Type]string
}

// readSource reads the comments and the constants of the API's types.
func (g *generator) readSource(t *testing.T) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../templates/v1alpha1/types.go", nil, parser.ParseComments)
	errtest.ExpectNone(t, err)
	g.docs, g.enums = map[string]string{}, map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if fields, ok := n.Type.(*ast.StructType); ok {
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						g.docs[n.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
		case *ast.ValueSpec:
			if of, ok := n.Type.(*ast.Ident); ok && len(n.Values) == 1 {
				if text, err := strconv.Unquote(n.Values[0].(*ast.BasicLit).Value); err == nil {
					g.enums[of.Name] = append(g.enums[of.Name], text)
				}
			}
		}
		return true
	})
}

// goType is the schema of a Go type's JSON form.
func (g *generator) goType(t reflect.Type) object {
	switch {
	case t.Kind() == reflect.Pointer:
		return g.goType(t.Elem())
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	case t == reflect.TypeFor[v1alpha1.Items]():
		return object{"anyOf": []any{g.goType(reflect.TypeFor[v1alpha1.ParameterType]()), g.fields(t)}}
	case t == reflect.TypeFor[metav1.LabelSelectorOperator]():
		return object{"enum": []string{"In", "NotIn", "Exists", "DoesNotExist"}}
	case g.enums[t.Name()] != nil:
		return object{"enum": g.enums[t.Name()]}
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.fields(t)
	case reflect.Slice:
		return object{"type": "array", "items": g.goType(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": optional(g.goType(t.Elem()))}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	}
	return object{"type": "string"}
}

func (g *generator) fields(t reflect.Type) object {
	properties, required := object{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if strings.Contains(options, "inline") {
				add(f.Type)
				continue
			}
			property, isOptional := g.goType(f.Type), strings.Contains(options, "omit")
			if isOptional {
				property = optional(property)
			}
			if doc := g.docs[t.Name()+"."+f.Name]; doc != "" {
				property["description"] = doc
			}
			properties[name] = property
			if !isOptional {
				required = append(required, name)
			}
		}
	}
	add(t)
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// optional makes the schema of a value take null, and "" beside names, which stand for no value.
func optional(of object) object {
	if names, ok := of["enum"].([]string); ok {
		var values []any
		for _, name := range names {
			values = append(values, name)
		}
		of["enum"] = append(values, "", nil)
	}
	if of["type"] != nil {
		of["type"] = []any{of["type"], "null"}
	}
	if forms, ok := of["anyOf"].([]any); ok {
		of["anyOf"] = append(forms, object{"type": "null"})
	}
	return of
}

// expression is one ${…} that gives a value of any type.
var expression = object{"type": "string", "pattern": `^\$\{[\s\S]*\}$`}

// condition is CEL that stands without ${}.
var condition = object{"type": []string{"string", "boolean"}, "not": object{"type": "string", "pattern": `^\s*\$\{`}}

// directives are the schemas of directives, with what they do. docs/reference/sidecartemplate.md says all of it.
var directives = map[string]object{
	directive.If:         with(condition, "CEL without ${}. Where it is false, the object is left out."),
	directive.For:        {"type": "string", "pattern": `^\s*[a-zA-Z_][a-zA-Z0-9_]*\s+in\s+[\s\S]*\S\s*$`, "description": "\"NAME in EXPRESSION\": repeats the item, with NAME bound."},
	directive.Each:       {"enum": []string{"App", "Init", "All"}, "description": "Extends every such container of the pod; expressions read it as container."},
	directive.Position:   {"anyOf": []any{object{"enum": []string{"First", "Last"}}, beside("before"), beside("after")}, "description": "Where the item stands in its list. Default Last."},
	directive.OnConflict: {"enum": []string{directive.Deny, directive.KeepPod, directive.Overwrite}, "description": "What happens where the pod has another value here or below."},
	directive.Patch:      {"enum": []string{"delete", "replace"}, "description": "As in a strategic merge patch."},
	directive.Unset:      {"type": "array", "items": object{"type": "string"}, "minItems": 1, "description": "Fields that are removed from the pod's object."},
	directive.Append:     {"type": "string", "minLength": 1, "description": "The separator. The value is joined behind what is there, once."},
	directive.Prepend:    {"type": "string", "minLength": 1, "description": "The separator. The value is joined in front of what is there, once."},
}

func with(of object, description string) object {
	of = maps.Clone(of)
	of["description"] = description
	return of
}

func beside(side string) object {
	return object{"type": "object", "properties": object{side: object{"type": "string", "minLength": 1}}, "required": []string{side}, "additionalProperties": false}
}

// fragment defines the pod fragment: labels, annotations and the spec.
func (g *generator) fragment() {
	for name, d := range directives {
		g.defs[name] = d
	}
	g.defs["expression"] = expression
	g.defs["replace"] = object{"type": "object", "properties": object{directive.Patch: object{"const": "replace"}}, "required": []string{directive.Patch}, "additionalProperties": false}
	metadata, _ := podschema.Pod().Field("metadata")
	labels, _ := metadata.Field("labels")
	annotations, _ := metadata.Field("annotations")
	spec, _ := podschema.Pod().Field("spec")
	plain := func(properties object) object {
		return object{"type": "object", "properties": properties, "additionalProperties": false}
	}
	g.defs["fragment"] = plain(object{
		directive.If: ref(directive.If), directive.OnConflict: ref(directive.OnConflict),
		"metadata": plain(object{
			directive.If: ref(directive.If), directive.OnConflict: ref(directive.OnConflict), directive.Unset: unset("labels"),
			"labels": g.value(labels), "annotations": g.mapOf(annotations, directive.Append, directive.Prepend),
		}),
		"spec": ref(g.define(spec)),
	})
	podSpec := g.defs[g.names[spec]]
	delete(podSpec["properties"].(object), "ephemeralContainers")
}

// value is the schema of a value in the fragment: a literal of the type, or an expression.
func (g *generator) value(t *podschema.Type) object {
	if t == nil {
		return object{}
	}
	switch t.Kind() {
	case podschema.Struct:
		return object{"anyOf": []any{ref(g.define(t)), ref("expression")}}
	case podschema.Map:
		return g.mapOf(t)
	case podschema.List:
		var items object
		if t.Elem().Kind() == podschema.Scalar {
			items = g.scalar(t.Elem())
		} else {
			items = ref(g.item(t))
		}
		return object{"anyOf": []any{object{"type": "array", "items": object{"anyOf": []any{items, ref("expression"), ref("replace")}}}, ref("expression")}}
	}
	return g.directed(t)
}

// scalars are the schemas of scalars without directives.
var scalars = map[podschema.ScalarType][]any{
	podschema.String:  {object{"type": "string"}},
	podschema.Number:  {object{"type": "number"}, ref("expression")},
	podschema.Boolean: {object{"type": "boolean"}, ref("expression")},
	podschema.Untyped: {object{"type": []string{"string", "number"}}},
}

// scalar is the schema of a scalar without directives.
func (g *generator) scalar(t *podschema.Type) object {
	g.defs[string(t.Scalar())] = object{"anyOf": scalars[t.Scalar()]}
	return ref(string(t.Scalar()))
}

// directed is the schema of a scalar, or of an object in its place: {$onConflict: …, value: …}.
func (g *generator) directed(t *podschema.Type, joins ...string) object {
	name := strings.Join(append([]string{string(t.Scalar())}, joins...), "") + "$"
	properties := object{"value": g.scalar(t), directive.If: ref(directive.If)}
	var one []any
	for _, name := range append(joins, directive.OnConflict) {
		properties[name] = ref(name)
		one = append(one, object{"required": []string{name}})
	}
	g.defs[name] = object{"anyOf": []any{g.scalar(t), object{
		"type": "object", "properties": properties, "required": []string{"value"}, "anyOf": one, "additionalProperties": false,
	}}}
	return ref(name)
}

// mapOf is the schema of an object whose keys are data. Its values may join texts.
func (g *generator) mapOf(t *podschema.Type, joins ...string) object {
	value := g.value(t.Elem())
	if t.Elem().Kind() == podschema.Scalar {
		value = g.directed(t.Elem(), joins...)
	}
	properties := object{}
	for _, name := range append(common, directive.Unset) {
		properties[name] = ref(name)
	}
	names := slices.Sorted(maps.Keys(properties))
	return object{"anyOf": []any{object{
		"type": "object", "properties": properties, "additionalProperties": value,
		"propertyNames": object{"anyOf": []any{object{"enum": names}, object{"pattern": `^([^$]|\$\$?\{)`}}},
	}, ref("expression")}}
}

// common are the directives of every object.
var common = []string{directive.If, directive.OnConflict, directive.Patch}

// define makes the definition of an object with fixed fields, and returns its name.
func (g *generator) define(t *podschema.Type) string {
	if name, known := g.names[t]; known {
		return name
	}
	name := "object" + strconv.Itoa(len(g.names)+1)
	g.names[t] = name
	g.defs[name] = g.structOf(t)
	return name
}

func (g *generator) structOf(t *podschema.Type, more ...string) object {
	properties := object{}
	for _, field := range t.FieldNames() {
		below, _ := t.Field(field)
		properties[field] = g.value(below)
	}
	for _, name := range append(more, common...) {
		properties[name] = ref(name)
	}
	properties[directive.Unset] = unset(t.FieldNames()...)
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// unset is the schema of $unset for an object of these fields.
func unset(fields ...string) object {
	of := maps.Clone(directives[directive.Unset])
	of["items"] = object{"enum": fields}
	return of
}

// item makes the definition of a list's items, and returns its name. Lists of one type of items
// differ in what an item needs and in its directives.
func (g *generator) item(list *podschema.Type) string {
	if name, known := g.names[list]; known {
		return name
	}
	name := "item" + strconv.Itoa(len(g.names)+1)
	g.names[list] = name
	if list.Elem().Kind() != podschema.Struct {
		g.defs[name] = g.value(list.Elem())
		return name
	}
	more := []string{directive.For}
	if len(list.Keys()) > 0 {
		more = append(more, directive.Position)
	}
	isContainers := list == podschema.At("spec.containers")
	if list.Elem() == podschema.At("spec.containers[].env[]") {
		more = append(more, directive.Append, directive.Prepend)
	}
	if isContainers {
		more = append(more, directive.Each)
	}
	item := g.structOf(list.Elem(), more...)
	var keys []string
	for _, k := range list.Keys() {
		if k.Default == nil || k.Default == "" {
			keys = append(keys, k.Name)
		}
	}
	switch {
	case isContainers:
		item["anyOf"] = []any{object{"required": keys}, object{"required": []string{directive.Each}}}
		var taken []any
		for _, field := range []string{"name", "image", directive.Position, directive.Patch} {
			taken = append(taken, object{"required": []string{field}})
		}
		item["dependencies"] = object{directive.Each: object{"not": object{"anyOf": taken}}}
	case len(keys) > 0:
		item["required"] = keys
	}
	g.defs[name] = item
	return name
}
