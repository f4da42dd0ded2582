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
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/param"
)

var update = flag.Bool("update", false, "write the reference anew")

// The tables of the page are made of the code. The prose between them is written there.
func TestTheReferenceForAuthorsIsUpToDate(t *testing.T) {
	for name, text := range tables(t) {
		transcript.Recorded(t, "../docs/reference/sidecartemplate.md", name, *update, func(string) string { return text })
	}
}

// directiveDocs say what each directive does, and where it stands.
var directiveDocs = map[string][2]string{
	"$if":       {"any object", "An expression. If it is false, the object is left out; beside `$for` or `$each` it sees their variable."},
	"$for":      {"an item of a list", "`\"NAME in EXPRESSION\"`: the item is repeated for each item of a list, or each key of a map in order, with NAME bound."},
	"$each":     {"an item of `spec.containers`", "`App`, `Init` or `All`: the item extends each such container of the pod; expressions read it as `container`. Sidecars of other injectors (`foreignSidecars` in the values, `--foreign-sidecars`) are neither `App` nor `Init`, except for a required template. An item without `$each` and image extends the container of its name, wherever that stands."},
	"$position": {"an item of a list with keys", "`First`, `Last` (default), `{before: NAME}` or `{after: NAME}`. Several `First` stand in the templates' order, those of required templates in front; without the anchor, the default and a warning. An item that the pod has already is not moved: a warning."},
	"$append": {"an item of a container's `env`; an object in the place of an annotation's value", "The text that separates: `{name: JAVA_TOOL_OPTIONS, $append: \" \", value: \"-javaagent:/agent/x.jar\"}`, or `{$append: \",\", value: \"8080\"}` as an annotation. " +
		"The value is joined to what is there, once, after those of earlier templates. Where nothing is there, it stands alone. An empty text adds nothing. Several items of one list may append to one variable."},
	"$prepend": {"an item of a container's `env`; an object in the place of an annotation's value", "The text that separates, as with `$append`: `{name: LD_LIBRARY_PATH, $prepend: \":\", value: /opt/agent/lib}`. The value is put in front of what is there, once, behind those of earlier templates. " +
		"Pillion does not see what an image sets: a variable that only the image has, such as PATH, is replaced, and `pillion lint` warns."},
	"$onConflict": {"any object; an object in the place of one scalar", "`Deny`, `KeepPod` or `Overwrite`, in place of spec.onConflict for this object and what is below it, or for one scalar: `terminationGracePeriodSeconds: {$onConflict: KeepPod, value: 60}`. It also reaches the pod's labels, annotations, variables and mounts, which otherwise stay. Two templates that disagree are a conflict whatever it says. At a port or a mount, `Overwrite` also says that it may stand beside one that clashes with it."},
	"$patch":      {"an object, or an item of a list", "`delete` or `replace`, as in a strategic merge patch."},
	"$unset":      {"an object", "A list of fields that are removed from the pod's object."},
}

var visibleDocs = map[string]string{
	"pod":             "the pod as its author wrote it, without what Pillion added; its fields have the types of the API, and one that no pod has is a mistake. `metadata.managedFields` is no field here",
	"namespaceObject": "the pod's namespace: `metadata.name`, `metadata.labels`, `metadata.annotations`, without the copy of the object that `kubectl apply` keeps there",
	"params":          "the parameters; one that is absent is asked for with `has(params.x)` or read with `params.?x`",
	"variables":       "the variables, each of which sees those before it",
	"values":          "the installer's values",
	"kubernetes":      "the API server's version, as the numbers `kubernetes.major` and `kubernetes.minor`: `$if: kubernetes.minor >= 35`. Pillion reads it every twenty seconds; while API servers are upgraded, either version may count. Offline it is that of `--kube-version`, or the newest that this build knows",
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
	{"a.merge(b)", "the entries of two maps; of two with one key that of `b`. Not deep"},
	{"scale(q, f)", "an amount times a number that is not negative: `scale(params.memory, 0.2)`. The product is exact and then rounded up, to whole units where `q` has a binary suffix such as `Mi` or is a million or more (bytes), else to thousandths (CPUs)"},
	{"minQ(a, b)`, `maxQ(a, b)", "the smaller, the larger one of two amounts"},
	{"requests(pod, 'cpu')`, `limits(pod, 'cpu')", "what the pod asks for of a resource, as the scheduler counts it: app containers and native sidecars together, or more while an init container runs; the pod's own `resources` and its overhead. Of a container, as `requests(container, 'memory')`, what it asks for itself. 0 where nothing is asked for; a container without a limit adds nothing to `limits`"},
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
	table("codes", "code | meaning", func(row func(...any)) {
		codes := reason.Codes()
		slices.Sort(codes)
		for _, c := range codes {
			row(code(string(c)), c.Sentence())
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
