package templates_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/param"
)

var update = flag.Bool("update", false, "write the reference anew")

const referenceFile = "../docs/templates.md"

func TestTheReferenceForAuthorsIsUpToDate(t *testing.T) {
	want := reference(t)
	if *update {
		if err := os.MkdirAll(filepath.Dir(referenceFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/templates.md is stale (-want +got); `go generate ./templates` writes it:\n%s", diff)
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

func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("<!-- Written by `go generate ./templates` from the code. Do not edit. -->")
	line("# SidecarTemplates: the reference\n")
	line("A SidecarTemplate is structured YAML with CEL in `${…}`. `pillion lint FILE` checks one on a laptop; what passes there is what the cluster accepts.")
	line("[examples/sidecartemplate.yaml](../examples/sidecartemplate.yaml) is a whole one.\n")
	line("## Fields of `spec`\n")
	fields(t, &b)
	line("## Parameters\n")
	line("A team sets a parameter by annotation, on the namespace or the pod (the pod's goes before the namespace's, that before the default): the template's name,")
	line("`.pillion.dev/` and the parameter's name in kebab-case. `logLevel` of `fluent-bit` is `fluent-bit.pillion.dev/log-level`. An empty value is a value.")
	line("An annotation under `TEMPLATE.pillion.dev/` that is no parameter's is refused like a bad value (`BadParameter`), on the pod and on the namespace, where the template is injected. So a new version")
	line("that drops a parameter refuses the pods of those who still set it: keep the parameter declared, unused, until nobody does.\n")
	line("| type | values |\n| --- | --- |")
	for _, typ := range param.Types() {
		line("| `%s` | %s |", typ.Name, typ.Words)
	}
	line("\n`enum`, `pattern`, `minimum`, `maximum` and `maxLength` narrow the types for which that means something; those of a list or a map belong to its `items`.\n")
	line("## Expressions\n")
	line("`${expr}` as a whole value gives the expression's own type (text where the pod's schema wants text; null or none leaves the field out). Inside a longer text,")
	line("or a key, it is joined as text. `$${` is a literal `${`. A value can never add a key or close a quote. Inside a shell script or a configuration's")
	line("text it still can mean more than a value: pass it as an environment variable, or write `${shellQuote(params.x)}`.\n")
	line("In `args`, `command` and other lists of plain values, an item that is a whole `${…}` and gives a list stands for its items, and none or an empty list for nothing:")
	line("`args: [\"--a\", \"${params.extra}\", \"--z\"]` with a parameter of the type `list`. Text is never split: a parameter of the type `string` is one argument, and so is each item of a")
	line("list. A parameter of the type `json` may be either; take `list` where the number of arguments matters.\n")
	line("| name | what it is |\n| --- | --- |")
	for _, name := range expression.VisibleNames() {
		if visibleDocs[name] == "" {
			t.Errorf("the reference does not say what %s is", name)
		}
		line("| `%s` | %s |", name, visibleDocs[name])
	}
	line("\nThere is no time, no randomness, no environment and no network. The functions are those of Kubernetes' admission policies, without those that ask for permissions, and these:\n")
	line("| function | what it gives |\n| --- | --- |")
	for _, f := range functionDocs {
		line("| `%s` | %s |", f[0], f[1])
	}
	line("")
	line("An amount is a quantity, its text (`'500m'`, a parameter, a field of the pod), or a number. As a whole `${…}`, and inside a text, a quantity is written as Kubernetes writes it: `${scale('1', 0.2)}` is `200m`.\n")
	line("A map or list literal has values of one type. Where they are mixed, wrap them: `{'name': dyn('a'), 'port': dyn(80)}`. Where a template reads pod fields that")
	line("this version does not know, `dyn(pod).spec.newField` reads one, and `allowUnknownFields: true` allows all.\n")
	line("\n`matchConditions` leave the pod as it is where one is false. `validations` refuse the pod with their message, for instance")
	line("`{name: container-exists, expression: \"pod.spec.containers.exists(c, c.name == params.container)\", messageExpression: \"'no container ' + params.container\"}`.\n")
	line("A variable that reads `container` has a value for each container, and can be read only in an item with `$each`:")
	line("`{name: port, expression: \"container.?ports[?0].?containerPort.orValue(0)\"}`. What `$for` binds, variables do not see.\n")
	line("## Files\n")
	line("`files` gives a sidecar its configuration, rendered for the pod: no ConfigMap in the namespace, and no right to write one.\n")
	line("```yaml\n%s```\n", strings.TrimPrefix(filesExample, "\n"))
	line("Pillion puts each file into the annotation `TEMPLATE.files.pillion.dev/NAME` of the pod, and gives the pod the volume `TEMPLATE-files`, a downward API volume that has them all. The template's containers mount it as any volume;")
	line("`subPath: NAME` mounts one file. Every byte arrives as it is rendered. A file whose text is one `${…}` that gives null or none is left out.\n")
	line("- Not for secrets: whoever reads pods reads their annotations. Mount a Secret, or pass `valueFrom.secretKeyRef`.")
	line("- Not for what changes while the pod runs: the file is rendered when the pod is created. Not for large data: all annotations of a pod together take %d KiB at most, and the pod is refused as `TemplateTooExpensive` otherwise, with the size.", 256)
	line("- A file's name has at most 63 letters, digits, `-`, `_` and `.`; the template's name at most 57 characters; a template at most 64 files.")
	line("- A pod that brings such an annotation or such a volume along is refused (`Conflict`), with `KeepPod` as well, unless it is what the template renders: the sidecar would read the pod's text for the template's. Nor may another webhook change them.")
	line("- Not with `required`: whoever may update a pod may change its annotations later, the file changes with them, and nobody verifies metadata then.\n")
	line("## Directives\n")
	line("Keys that begin with `$`, in `inject`.\n")
	line("| directive | stands on | what it does |\n| --- | --- | --- |")
	for _, name := range directive.Names() {
		doc, ok := directiveDocs[name]
		if !ok {
			t.Errorf("the reference does not say what %s does", name)
		}
		line("| `%s` | %s | %s |", name, doc[0], doc[1])
	}
	line("\n## Functions\n")
	line("Macros: `%s`.\n", strings.Join(expression.Macros(), "`, `"))
	line("| function | forms |\n| --- | --- |")
	for _, f := range expression.Functions() {
		line("| `%s` | %s |", f.Name(), forms(f))
	}
	line("\n## Bounds\n")
	line("What a tenant can make a template cost is bounded; what goes over is refused as `TemplateTooExpensive`.\n")
	line("| bound | value |\n| --- | --- |")
	line("| cost of one evaluation of one expression, in CEL's unit | %d |", templates.MaxExpressionCost)
	line("| cost of all evaluations and repetitions for one pod | %d |", templates.MaxRenderCost)
	line("| repetitions of one `$for` | %d |", templates.MaxIterations)
	line("| bytes of the fragment for one pod | %d |", templates.MaxRenderedBytes)
	line("| bytes of a manifest | %d |", templates.MaxManifestBytes)
	line("| expressions of a template, with each `$each` and `$for` | %d |", expression.MaxExpressions)
	line("| bytes of one expression | %d |", expression.MaxSource)
	line("\n## Required templates\n")
	line("A template with `required` (it needs `match`) is injected whatever the annotations say. Nobody may set its parameters unless `setBy` says so, and")
	line("`overridable`, `KeepPod` and `Skip` are refused. Labels, annotations, variables and mounts of the pod, which stay where another template wants other values,")
	line("are conflicts for a required one.\n")
	line("After all other webhooks the final pod is compared with what the template renders. A container that it adds has every field as rendered and no other, but for the")
	line("API's defaults, what the API server's own admission adds, images that `verify.images` accepts, and what `verify.allow` lists for other webhooks. What it gives to")
	line("other containers, to metadata and to the pod is there as rendered. An item with `$position` stands where the template wants it. [merge.md](merge.md#required-templates)")
	line("has the whole list, and says what the template's author has to render to rule it out.\n")
	line("An edit of a required template refuses no pod that is being created: for five seconds the version before counts, too ([enforcement.md](enforcement.md#while-a-required-template-changes)).")
	line("")
	line("Later an image of such a container may change only to an accepted one, its resources only with `verify.allow.resources`, and no new ephemeral container may target it.")
	line("Metadata and finalizers never depend on Pillion. Where the pod's namespace has the")
	line("label `pillion.dev/injection: enforced`, a pod is refused as well while Pillion does not answer.\n")
	line("API servers have pods verified only in namespaces with the label `pillion.dev/required: \"true\"`; pods elsewhere cost no such call. Pillion keeps the label on the namespaces that the `match` of a required")
	line("template selects, and on no other: in the same write when a namespace is created or relabelled, so that its first pod is verified. When a template comes, the namespaces")
	line("that are there get the label at once: one within a second, ten thousand in four minutes at 50 a second. When it goes, or is suspended, the label goes ten seconds later. So of a pod that is created 100 ms after its")
	line("required template this holds: it is injected as soon as the replica that is asked has the template, and that call refuses what conflicts; but until the namespace has the label, nobody looks")
	line("at what other webhooks do after Pillion, or at later images. Before you rely on a new template, wait until no namespace that you mean is missing from this list:\n")
	line("    kubectl get namespaces -l pillion.dev/required=true\n")
	line("`match.namespaceSelector` and `availableTo.namespaceSelector` cannot name the label: Pillion sets it because of the selector. A bad version of a required template leaves the label where its last good version has it; a template that")
	line("never had a good one keeps it where its `match` can be read, because its pods are refused there.\n")
	line("```yaml\nrequired: true\nverify:\n  images: [\"mirror.example.com/fluent/*\"]\n  allow:\n    env: [HTTP_PROXY, \"OTEL_*\"]\n    volumeMounts: [\"/etc/ssl/*\"]\n    resources: true\n    probes: true\n```\n")
	line("In `images` and `volumeMounts` `*` stands for any text without `/`, and `**` for any text; in `env` `*` stands for any text. The verification finds the containers")
	line("by their names, so each one with an image has a name without expressions and stands in the list by itself: no `$for`, and no list that an expression gives.\n")
	line("`verify` is about the containers that the template adds. Where another webhook changes their resources (a VerticalPodAutoscaler), the pod is refused unless `allow.resources`")
	line("is true. A LimitRange only sets requests and limits that the template leaves open: set them in the template, or allow it.\n")
	line("A tenant can write `pillion.dev/status` as well. So the record in it hides from a required template only what the templates, rendered anew, give to the pod: its own containers")
	line("and those of other templates, as rendered in image, command, variables, mounts, security context and probes. A container that only has a sidecar's name, because the pod brought it")
	line("along, another webhook changed it, or an older version of its template made it, counts as the pod's own: `$each` reaches it. `$each` does not reach the containers of other")
	line("templates, whatever image or command their parameters give them: restrict those (`setBy`, `enum`, `pattern`, `availableTo`). The template's conditions should not look at what")
	line("it adds itself.\n")
	line("## Operating systems\n")
	line("A template is for pods of the systems in `os`, by default Linux.")
	line("A pod's system is `spec.os.name`, else its node selector `kubernetes.io/os`, else linux.")
	line("Nothing else counts: neither `nodeAffinity`, nor a runtime class, nor a toleration.")
	line("A pod that reaches nodes of Windows by these alone is one for Linux, so let it say `os: {name: windows}`.\n")
	line("A pod of another system goes without the template (`OtherSystem`).")
	line("There is a warning if an annotation asked for the template.")
	line("If the template only matches, `pillion explain` says it, and nothing else.")
	line("Where the template is required the pod is refused, whatever `onError` says.\n")
	line("To let pods for Windows pass a required template for Linux, list both systems, and exempt such pods by a condition.")
	line("A pod that says that it is for Windows runs on no other node, so nobody gains by saying it.")
	line("A label, as in `podSelector`, is the pod creator's to set.\n")
	line("```yaml\nrequired: true\nos: [linux, windows]\nmatchConditions:\n- name: for-linux\n  expression: \"pod.spec.?os.?name.or(pod.spec.?nodeSelector[?'kubernetes.io/os']).orValue('linux') == 'linux'\"\n```\n")
	line("The API server refuses a pod with `os: {name: windows}` that has fields of Linux, such as `runAsUser`, `capabilities` or `seccompProfile`.")
	line("`containerSecurity: Restricted` leaves them out there.")
	line("`pillion lint` tries a template that lists `windows` on a pod for Windows.")
	line("In one fragment for both systems, an `$if` with the expression above tells them apart.\n")
	line("## In the cluster\n")
	line("`kubectl apply` (and its dry run) refuses a template with mistakes, and `kubectl delete` one that namespaces name, or that is required, unless it is annotated")
	line("`pillion.dev/allow-delete`. `kubectl get sidecartemplates` shows whether the newest spec is in force (the condition `Ready`; reasons `Compiled`, `CompileFailed`,")
	line("`NameTaken`) and the hash that pods carry. A template that breaks keeps its last good version; one that never had a good one gives `TemplateBroken`, treated by")
	line("its `onError`, to the pods that ask for it or match it.\n")
	line("A name belongs to the first that has it: the library, the files of the server's `--templates` (the chart's `templates`), the cluster's objects. Another template")
	line("of the name has no effect, and that is said: the log names both places, file and line; an object gets the reason `NameTaken`, and `kubectl apply` warns of it.")
	line("On the command line two templates of one name in `--templates` are an error that names both places; one of a library template's name takes its place.\n")
	line("## Errors\n")
	line("An error of a manifest reads `FILE:LINE: template NAME: PATH: MESSAGE`. In an expression `>>>` stands before the place that the message is about.")
	line("kubectl shows the same without file and line, because an API server does not know them.\n")
	line("What `pillion lint` looks at:\n")
	line("| rule | severity | finds |\n| --- | --- | --- |")
	for _, r := range lint.Rules {
		line("| `%s` | %s | %s |", r.Name, r.Severity, r.Says)
	}
	line("\nThe codes with which warnings, refusals, events, metrics and `pillion explain` name the outcome for a template:\n")
	line("| code | meaning |\n| --- | --- |")
	codes := reason.Codes()
	slices.Sort(codes)
	for _, c := range codes {
		line("| `%s` | %s |", c, c.Sentence())
	}
	return b.String()
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
func fields(t *testing.T, b *strings.Builder) {
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
	fmt.Fprint(b, "| field | type | what it is |\n| --- | --- | --- |\n")
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
			fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, name, kind, strings.ReplaceAll(doc, "|", `\|`))
			if below, ok := structs[inner]; ok {
				if strings.HasPrefix(kind, "list of") {
					name += "[]"
				}
				walk(below, prefix+name+".")
			}
		}
	}
	walk(structs["SidecarTemplateSpec"], "")
	fmt.Fprintln(b)
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
