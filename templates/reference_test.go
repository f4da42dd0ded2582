package templates_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/templatestest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

var update = flag.Bool("update", false, "write the reference anew")

// The pages of fields, parameters, injection and lint rules are made of the code, and so is the example of files.
func TestTheReferenceForAuthorsIsUpToDate(t *testing.T) {
	types := parseTypes(t)
	sections := fieldSections(t, types)
	for page, text := range map[string]string{
		"fields.md": fieldsPage(t, types, sections), "parameters.md": parametersPage(t, sections),
		"inject.md": injectPage(t, sections), "lint-rules.md": rulesPage(),
	} {
		transcript.Generated(t, "../docs/reference/"+page, "go generate ./templates", text, *update)
	}
	for name := range sections {
		t.Errorf("no page of the reference has the field %s", name)
	}
	transcript.Recorded(t, "../docs/reference/sidecartemplate.md", "files", *update, func(string) string { return strings.TrimPrefix(filesExample, "\n") })
}

// directiveDocs say what each directive does, and where it stands.
var directiveDocs = map[string][2]string{
	"$if":         {"any object", "An expression. If it is false, the object is left out; beside `$for` or `$each` it sees their variable."},
	"$for":        {"an item of a list", "`\"NAME in EXPRESSION\"`: the item is repeated for each item of a list, or each key of a map in order, with NAME bound."},
	"$each":       {"an item of `spec.containers`", "`App`, `Init` or `All`: the item extends each such container of the pod; expressions read it as `container`."},
	"$position":   {"an item of a list with keys", "`First`, `Last` (default), `{before: NAME}` or `{after: NAME}`."},
	"$append":     {"an item of a container's `env`; an object as an annotation's value", "The separator: `{name: JAVA_TOOL_OPTIONS, $append: \" \", value: \"-javaagent:/agent/x.jar\"}`, or `{$append: \",\", value: \"8080\"}`. The value comes after the pod's."},
	"$prepend":    {"an item of a container's `env`; an object as an annotation's value", "The separator: `{name: LD_LIBRARY_PATH, $prepend: \":\", value: /opt/agent/lib}`. The value comes before the pod's."},
	"$onConflict": {"any object; an object as a scalar's value", "`Deny`, `KeepPod` or `Overwrite`, for this object and what is below it, or for one scalar: `terminationGracePeriodSeconds: {$onConflict: KeepPod, value: 60}`."},
	"$patch":      {"an object, or an item of a list", "`delete` or `replace`, as in a strategic merge patch."},
	"$unset":      {"an object", "A list of fields that are removed from the pod's object."},
}

// filesExample is a template's spec in the reference.
const filesExample = `
parameters: [{name: logLevel, type: string, enum: [info, debug], default: info}]
files:
  agent.yaml: |
    level: ${params.logLevel}
    namespace: ${toJson(namespaceObject.metadata.name)}
inject:
  spec:
    initContainers:
    - name: agent
      image: registry.example.com/agent:1
      restartPolicy: Always
      args: [--config, /etc/agent/agent.yaml]
      volumeMounts: [{name: agent-files, mountPath: /etc/agent, readOnly: true}]
`

func TestTheExampleOfFilesCompiles(t *testing.T) {
	text := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: agent}\nspec:" + strings.ReplaceAll(filesExample, "\n", "\n  ")
	if _, warnings, err := templates.Compile([]byte(text), templates.Options{}); err != nil || len(warnings) > 0 {
		t.Errorf("%v, %v", warnings, err)
	}
}

func code(text string) string { return "`" + text + "`" }

// fieldSections returns the text about each field of a template's spec.
func fieldSections(t *testing.T, types apiTypes) map[string]string {
	t.Helper()
	var b strings.Builder
	types.fields(t, &b, types.structs[types.kinds[0]].spec, "", 0)
	sections := map[string]string{}
	for section := range strings.SplitSeq(strings.TrimPrefix(b.String(), "\n### "), "\n### ") {
		name, _, _ := strings.Cut(section, "\n")
		sections[strings.Trim(name, "`")] = "\n### " + section
	}
	return sections
}

// writeSections writes the sections of some fields, and takes them out of the map.
func writeSections(t *testing.T, b *strings.Builder, sections map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		if sections[name] == "" {
			t.Errorf("the spec has no field %s", name)
		}
		b.WriteString(sections[name])
		delete(sections, name)
	}
}

func fieldsPage(t *testing.T, types apiTypes, sections map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Fields that select pods\n\nFor authors of templates: the fields of `spec` that select pods.\n" +
		"[The injection](inject.md) and [parameters](parameters.md) have pages of their own; [SidecarTemplate](sidecartemplate.md) explains all.\n\n## Kinds\n\n")
	for _, kind := range types.kinds {
		fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(types.sentence(t, kind, code(kind), types.structs[kind].doc), "\n", "\n  "))
	}
	fmt.Fprintf(&b, "- %s\n\n## Fields\n", strings.ReplaceAll(types.sentence(t, "NamespacedKind", code(v1alpha1.NamespacedKind), types.namespaced), "\n", "\n  "))
	writeSections(t, &b, sections, "description", "injectByDefault", "order", "suspend", "availableTo", "match", "required", "verify",
		"exceptions", "matchConditions", "validations", "os", "canary")
	return b.String()
}

func parametersPage(t *testing.T, sections map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Parameters\n\nFor authors of templates: each field of a parameter, and its types.\n" +
		"[SidecarTemplate](sidecartemplate.md#parameters) explains how teams set them.\n\n## Fields\n")
	writeSections(t, &b, sections, "parameters")
	b.WriteString("\n## Types\n\n| type | values |\n| --- | --- |\n")
	for _, typ := range parseTypes(t).values["ParameterType"] {
		fmt.Fprintf(&b, "| %s | %s |\n", code(typ.value), valuesOf(t, typ.value))
	}
	b.WriteString("\n`enum`, `pattern`, `minimum`, `maximum` and `maxLength` narrow a type; those of a list or a map belong into its `items`.\n")
	return b.String()
}

func injectPage(t *testing.T, sections map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Fields of the injection, directives, bounds\n\nFor authors of templates: the fields of `spec` about the injected parts.\n\n## Fields\n")
	writeSections(t, &b, sections, "inject", "variables", "files", "overridable", "onConflict", "podResources", "containerSecurity", "onError", "allowUnknownFields")
	b.WriteString("\n## Directives\n\nKeys that begin with `$`, in `inject`.\n")
	for _, name := range directive.Names() {
		doc, ok := directiveDocs[name]
		if !ok {
			t.Errorf("the reference does not say what %s does", name)
		}
		fmt.Fprintf(&b, "\n### %s\n\nOn %s.\n%s\n", code(name), doc[0], strings.ReplaceAll(doc[1], ". ", ".\n"))
	}
	b.WriteString("\n## Bounds\n\nA pod beyond a bound is refused (`TemplateTooExpensive`), and a template beyond one does not compile.\n\n| bound | value |\n| --- | --- |\n")
	for _, bound := range []struct {
		name  string
		value int
	}{
		{"cost of one evaluation of one expression, in CEL's unit", expression.MaxExpressionCost},
		{"cost of all evaluations and repetitions of all templates for one pod", expression.MaxCost},
		{"repetitions of one `$for`", expression.MaxIterations},
		{"bytes of the fragment for one pod", expression.MaxBytes},
		{"bytes of a manifest", manifest.MaxBytes},
		{"expressions of a template, with each `$each` and `$for`", expression.MaxExpressions},
		{"bytes of one expression", expression.MaxSource},
	} {
		fmt.Fprintf(&b, "| %s | %d |\n", bound.name, bound.value)
	}
	return b.String()
}

func rulesPage() string {
	var b strings.Builder
	b.WriteString("# Rules of lint\n\nFor authors of templates: each kind of finding of `pillion lint`.\n[What lint finds](template-checks.md#what-lint-finds) shows its output.\n\n")
	for _, r := range lint.Rules {
		fmt.Fprintf(&b, "- %s (%s): %s\n", code(r.Name), r.Severity, strings.ReplaceAll(r.Says, ". ", ".\n  "))
	}
	return b.String()
}

// valuesOf says what the values of a type of parameters are.
func valuesOf(t *testing.T, typ string) string {
	t.Helper()
	switch typ {
	case "list":
		return "comma separated values of the type in items; empty text is the empty list"
	case "map":
		return "one annotation NAME.KEY for each key, its value of the type in items; gathered from namespace and pod key by key"
	}
	return templatestest.Compile(t, "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a}\nspec: {parameters: [{name: p, type: "+typ+"}], inject: {spec: {hostname: a}}}").Parameters()[0].Allowed
}

// apiTypes are the types of the package v1alpha1.
type apiTypes struct {
	kinds   []string // in the order of the file
	structs map[string]apiStruct
	values  map[string][]apiValue // of a type of text
	texts   map[string]bool       // the types of text

	namespaced string // the comment of the kind that has no type of its own
}

type apiStruct struct {
	fields []*ast.Field
	doc    string
	spec   string // of a kind: the type of its spec
}

// apiValue is a value that a type of text has, with the comment of its constant.
type apiValue struct{ constant, value, doc string }

func parseTypes(t *testing.T) apiTypes {
	t.Helper()
	files, err := filepath.Glob("v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var decls []ast.Decl
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			decls = append(decls, file.Decls...)
		}
	}
	all := apiTypes{structs: map[string]apiStruct{}, values: map[string][]apiValue{}, texts: map[string]bool{}}
	for _, d := range decls {
		general, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range general.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				all.add(s, general.Doc.Text())
			case *ast.ValueSpec:
				if s.Names[0].Name == "NamespacedKind" {
					all.namespaced = s.Doc.Text()
				}
				if of, ok := s.Type.(*ast.Ident); ok && len(s.Values) == 1 {
					value := strings.Trim(s.Values[0].(*ast.BasicLit).Value, `"`)
					all.values[of.Name] = append(all.values[of.Name], apiValue{s.Names[0].Name, value, s.Doc.Text()})
				}
			}
		}
	}
	return all
}

func (a *apiTypes) add(s *ast.TypeSpec, doc string) {
	if of, ok := s.Type.(*ast.Ident); ok {
		a.texts[s.Name.Name] = of.Name == "string"
	}
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return
	}
	found := apiStruct{fields: st.Fields.List, doc: doc}
	meta := false
	for _, f := range st.Fields.List {
		embedded, isSelector := f.Type.(*ast.SelectorExpr)
		meta = meta || isSelector && embedded.Sel.Name == "ObjectMeta"
		if len(f.Names) == 1 && f.Names[0].Name == "Spec" {
			found.spec, _ = a.typeOf(f.Type)
		}
	}
	if meta && found.spec != "" {
		a.kinds = append(a.kinds, s.Name.Name)
	}
	a.structs[s.Name.Name] = found
}

// sentence returns a comment with shown in the place of the Go name that it begins with, and a line for
// each sentence.
func (apiTypes) sentence(t *testing.T, name, shown, doc string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(strings.Join(strings.Fields(doc), " "), name)
	if !ok {
		t.Errorf("the comment of %s does not begin with its name: %q", name, doc)
	}
	return shown + strings.NewReplacer("*", `\*`, "|", `\|`, ". ", ".\n").Replace(rest)
}

// fields writes the fields of a type with their comments: a heading for each, and a list of those below.
func (a apiTypes) fields(t *testing.T, b *strings.Builder, typ, prefix string, depth int) {
	t.Helper()
	for _, f := range a.structs[typ].fields {
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		name, options, _ := strings.Cut(tag, ",")
		inner, kind := a.typeOf(f.Type)
		if strings.Contains(options, "inline") {
			a.fields(t, b, inner, prefix, depth)
			continue
		}
		item := "- "
		if depth == 0 {
			item = ""
			fmt.Fprintf(b, "\n### %s\n\n", code(name))
		}
		text := a.sentence(t, f.Names[0].Name, code(prefix+name)+" ("+kind+")", f.Doc.Text())
		fmt.Fprintf(b, "%s%s\n", item, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(item))))
		if depth == 0 && clusterOnly(name) {
			fmt.Fprintf(b, "Not for a %s.\n", v1alpha1.NamespacedKind)
		}
		if depth == 0 && (len(a.structs[inner].fields) > 0 || len(a.values[inner]) > 0) {
			b.WriteString("\n")
		}
		for _, v := range a.values[inner] {
			if inner == "ParameterType" {
				continue // the page has a table of them
			}
			text := code(v.value)
			if v.doc != "" {
				text = a.sentence(t, v.constant, text, v.doc)
			}
			fmt.Fprintf(b, "%s- %s\n", strings.Repeat("  ", min(depth, 1)), text)
		}
		if strings.HasPrefix(kind, "list of") {
			name += "[]"
		}
		if prefix+name == "parameters[].items" {
			continue // it has the type and the constraints of a parameter
		}
		a.fields(t, b, inner, prefix+name+".", depth+1)
	}
}

// clusterOnly reports whether a NamespacedSidecarTemplate cannot have the field of the spec.
func clusterOnly(field string) bool {
	manifest := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: %s\nmetadata: {name: a, namespace: b}\nspec: {%s: null}\n", v1alpha1.NamespacedKind, field)
	_, _, err := templates.Compile([]byte(manifest), templates.Options{})
	return err != nil && strings.Contains(err.Error(), "is not for a "+v1alpha1.NamespacedKind)
}

// typeOf returns the name of a field's type, and the type in words.
func (a apiTypes) typeOf(e ast.Expr) (name, words string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return a.typeOf(e.X)
	case *ast.MapType:
		name, words = a.typeOf(e.Value)
		return name, "map of " + words
	case *ast.ArrayType:
		name, words = a.typeOf(e.Elt)
		return name, strings.Replace("list of "+words, "of object", "of objects", 1)
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "RawMessage":
			return "", "any"
		case "LabelSelector":
			return "", "label selector"
		}
		return "", e.Sel.Name
	case *ast.Ident:
		switch {
		case e.Name == "string":
			return "", "text"
		case e.Name == "bool":
			return "", "boolean"
		case e.Name == "int32" || e.Name == "int64":
			return "", "whole number"
		case a.texts[e.Name]:
			return e.Name, "text"
		}
		return e.Name, "object"
	}
	return "", "any"
}
