package templates_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/param"
)

var update = flag.Bool("update", false, "write the reference anew")

// The tables of the pages are made of the code. The prose between them is written there.
func TestTheReferenceForAuthorsIsUpToDate(t *testing.T) {
	ofFunctions := []string{"names", "own functions", "macros", "functions"}
	for name, text := range tables(t) {
		page := "../docs/reference/sidecartemplate.md"
		if slices.Contains(ofFunctions, name) {
			page = "../docs/reference/functions.md"
		}
		transcript.Recorded(t, page, name, *update, func(string) string { return text })
	}
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

var visibleDocs = map[string]string{
	"pod":             "The pod as its author wrote it, without what Pillion added, and without `metadata.managedFields`. Its fields have the API's types; an unknown field is a mistake.",
	"namespaceObject": "The pod's namespace: `metadata.name`, `metadata.labels`, `metadata.annotations`, without the copy that `kubectl apply` keeps there.",
	"params":          "The parameters. `has(params.x)` asks for an absent one, and `params.?x` reads it.",
	"variables":       "The variables. Each sees those before it.",
	"values":          "The installer's values.",
	"kubernetes":      "The API server's version as numbers, read every twenty seconds: `kubernetes.major`, `kubernetes.minor`. Offline it is that of `--kube-version`, or the newest that this build knows.",
}

// filesExample is a template's spec in the reference.
const filesExample = `
parameters: [{name: logLevel, type: string, enum: [info, debug], default: info}]
files:
  agent.yaml: |
    level: ${params.logLevel}
    namespace: ${namespaceObject.metadata.name}
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

// functionDocs are the functions that Kubernetes' policies do not have.
var functionDocs = [][2]string{
	{"toJson(x)", "any value as JSON, its keys in order"},
	{"shellQuote(s)", "text as one word of a POSIX shell"},
	{"base64.encode(b)`, `base64.decode(s)", "bytes as base64 and back: `base64.encode(bytes(params.text))`, `string(base64.decode(params.text))`"},
	{"a.merge(b)", "the entries of two maps, not deep; where both have a key, that of `b`"},
	{"scale(q, f)", "an amount times a number that is not negative: `scale(params.memory, 0.2)`. It is rounded up: to whole units for bytes (a binary suffix, or a million and more), else to thousandths"},
	{"minQ(a, b)`, `maxQ(a, b)", "the smaller, or the larger, of two amounts"},
	{"requests(pod, 'cpu')`, `limits(pod, 'cpu')", "what the pod asks for, as the scheduler counts it, with its own `resources` and overhead. A container without a limit adds nothing to `limits`"},
	{"requests(container, 'memory')`, `limits(container, 'memory')", "the same of one container; 0 where nothing is asked for"},
}

// tables are the parts of the page that follow from the code, each by the name of its block.
func tables(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	table := func(name, head string, rows func(row func(cells ...any))) {
		var b strings.Builder
		fmt.Fprintf(&b, "| %s |\n|%s\n", head, strings.Repeat(" --- |", strings.Count(head, " | ")+1))
		rows(func(cells ...any) {
			for _, cell := range cells {
				fmt.Fprintf(&b, "| %v ", cell)
			}
			b.WriteString("|\n")
		})
		all[name] = b.String()
	}
	code := func(text string) string { return "`" + text + "`" }
	table("fields", "field | type | what it is", func(row func(...any)) { fields(t, row) })
	table("types", "type | values", func(row func(...any)) {
		for _, typ := range param.Types() {
			row(code(string(typ.Name)), typ.Words)
		}
	})
	table("names", "name | what it is", func(row func(...any)) {
		for _, name := range expression.VisibleNames() {
			if visibleDocs[name] == "" {
				t.Errorf("the reference does not say what %s is", name)
			}
			row(code(name), visibleDocs[name])
		}
	})
	table("own functions", "function | what it gives", func(row func(...any)) {
		for _, f := range functionDocs {
			row(code(f[0]), f[1])
		}
	})
	table("directives", "directive | stands on | what it does", func(row func(...any)) {
		for _, name := range directive.Names() {
			doc, ok := directiveDocs[name]
			if !ok {
				t.Errorf("the reference does not say what %s does", name)
			}
			row(code(name), doc[0], doc[1])
		}
	})
	all["macros"] = "Macros: `" + strings.Join(expression.Macros(), "`, `") + "`.\n"
	table("functions", "function | forms", func(row func(...any)) {
		for _, f := range expression.Functions() {
			row(code(f.Name()), forms(f))
		}
	})
	table("bounds", "bound | value", func(row func(...any)) {
		row("cost of one evaluation of one expression, in CEL's unit", templates.MaxExpressionCost)
		row("cost of all evaluations and repetitions for one pod", templates.MaxRenderCost)
		row("repetitions of one `$for`", templates.MaxIterations)
		row("bytes of the fragment for one pod", templates.MaxRenderedBytes)
		row("bytes of a manifest", templates.MaxManifestBytes)
		row("expressions of a template, with each `$each` and `$for`", expression.MaxExpressions)
		row("bytes of one expression", expression.MaxSource)
	})
	table("rules", "rule | severity | finds", func(row func(...any)) {
		for _, r := range lint.Rules {
			row(code(r.Name), r.Severity, r.Says)
		}
	})
	all["files"] = strings.TrimPrefix(filesExample, "\n")
	return all
}

// forms writes the signatures of a function.
func forms(f *decls.FunctionDecl) string {
	var all []string
	for _, o := range f.OverloadDecls() {
		var args []string
		for _, a := range o.ArgTypes() {
			args = append(args, typeName(a))
		}
		form := f.Name() + "(" + strings.Join(args, ", ") + ")"
		if o.IsMemberFunction() {
			form = args[0] + "." + f.Name() + "(" + strings.Join(args[1:], ", ") + ")"
		}
		form = "`" + form + " → " + typeName(o.ResultType()) + "`"
		if !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "<br>")
}

func typeName(t *types.Type) string {
	name := strings.TrimPrefix(strings.TrimPrefix(t.String(), "kubernetes."), "google.protobuf.")
	return strings.ReplaceAll(name, "optional_type", "optional")
}

// fields writes the fields of the API types, with their comments.
func fields(t *testing.T, row func(cells ...any)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "v1alpha1/types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	structs := map[string]*ast.StructType{}
	for _, d := range file.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range general.Specs {
			if named, ok := s.(*ast.TypeSpec); ok {
				if st, ok := named.Type.(*ast.StructType); ok {
					structs[named.Name.Name] = st
				}
			}
		}
	}
	var walk func(st *ast.StructType, prefix string)
	walk = func(st *ast.StructType, prefix string) {
		for _, f := range st.Fields.List {
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
			name, options, _ := strings.Cut(tag, ",")
			inner, kind := typeOf(f.Type)
			if strings.Contains(options, "inline") {
				walk(structs[inner], prefix)
				continue
			}
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			if doc == "" {
				t.Errorf("the field %s%s has no comment", prefix, name)
			}
			row("`"+prefix+name+"`", kind, strings.ReplaceAll(doc, "|", `\|`))
			if below, ok := structs[inner]; ok {
				if strings.HasPrefix(kind, "list of") {
					name += "[]"
				}
				walk(below, prefix+name+".")
			}
		}
	}
	walk(structs["SidecarTemplateSpec"], "")
}

// typeOf returns the name of a field's type, and the type in words.
func typeOf(e ast.Expr) (name, words string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeOf(e.X)
	case *ast.MapType:
		_, words = typeOf(e.Value)
		return "", "object of " + words
	case *ast.ArrayType:
		name, words = typeOf(e.Elt)
		return name, "list of " + words
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "RawMessage":
			return "", "any"
		case "LabelSelector":
			return "", "label selector"
		}
		return "", e.Sel.Name
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "", "text"
		case "bool":
			return "", "boolean"
		case "int32", "int64":
			return "", "whole number"
		case "ParameterType", "Level", "ConflictPolicy", "ErrorPolicy", "PodResourcesPolicy", "ContainerSecurity", "OperatingSystem":
			return "", "text"
		}
		return e.Name, "object"
	}
	return "", "any"
}
