package expression

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	kubernetescel "k8s.io/apiserver/pkg/cel/environment"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/docs/transcript"
)

// overloads returns the forms of an environment's functions, which of them ask for
// permissions, and the macros.
func overloads(env *cel.Env) map[string]bool {
	all := map[string]bool{}
	for name, f := range env.Functions() {
		for _, o := range f.OverloadDecls() {
			types := append([]*cel.Type{o.ResultType()}, o.ArgTypes()...)
			all[name+" "+o.ID()] = slices.ContainsFunc(types, func(t *cel.Type) bool { return strings.Contains(t.String(), "kubernetes.authorization.") })
		}
	}
	for _, m := range env.Macros() {
		all["macro "+m.MacroKey()] = false
	}
	return all
}

func TestFunctionsAndMacrosAreThoseOfKubernetesPoliciesWithoutPermissions(t *testing.T) {
	theirs := overloads(kubernetescel.MustBaseEnvSet(kubernetescel.DefaultCompatibilityVersion()).StoredExpressionsEnv())
	ours := overloads(baseEnvironment())
	own := []string{
		"toJson pillion_to_json", "shellQuote pillion_shell_quote", sortedFunction + " pillion_sorted", valueFunction + " pillion_value", "base64.decode base64_decode_string", "base64.encode base64_encode_bytes",
		"merge pillion_map_merge_map", "scale pillion_scale", "requests pillion_requests", "limits pillion_limits",
	}
	for id, permissions := range theirs {
		if _, has := ours[id]; has == permissions {
			t.Errorf("%s: about permissions %t, and here %t", id, permissions, has)
		}
	}
	for id := range ours {
		if _, has := theirs[id]; !has && !slices.Contains(own, id) {
			t.Errorf("%s is none of Kubernetes' and none of ours", id)
		}
	}
}

func TestToJSONWritesWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\u2028<&>\u2029", "\"\\\n\x01\x7f", "é"})).Draw(rt, "text")
		v := map[string]any{text: []any{text, true, nil, json.Number("1.50")}, "b": map[string]any{}}
		var want strings.Builder
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			rt.Fatal(err)
		}
		if got := toJSON(adapt(v)); string(got.(types.String))+"\n" != want.String() {
			rt.Errorf("%s, want %s", got, want.String())
		}
	})
}

var update = flag.Bool("update", false, "write the reference anew")

// The page of functions is made of the code.
func TestTheReferenceOfFunctionsIsUpToDate(t *testing.T) {
	transcript.Generated(t, "../../docs/reference/functions.md", "go generate ./templates", functionsPage(t), *update)
}

var visibleDocs = map[string]string{
	"pod":             "The pod as its author wrote it, without what Pillion added, and without `metadata.managedFields`. Its fields have the API's types; an unknown field is a mistake.",
	"namespaceObject": "The pod's namespace: `metadata.name`, `metadata.labels`, `metadata.annotations`, without the copy that `kubectl apply` keeps there.",
	"params":          "The parameters. `has(params.x)` asks for an absent one, and `params.?x` reads it.",
	"variables":       "The variables. Each sees those before it.",
	"values":          "The installer's values.",
}

// functionDocs are the functions that Kubernetes' policies do not have.
var functionDocs = [][2]string{
	{"toJson(x)", "any value as JSON, its keys in order"},
	{"shellQuote(s)", "text as one word of a POSIX shell"},
	{"base64.encode(b)`, `base64.decode(s)", "bytes as base64 and back: `base64.encode(bytes(params.text))`, `string(base64.decode(params.text))`"},
	{"a.merge(b)", "the entries of two maps, not deep; where both have a key, that of `b`"},
	{"scale(q, f)", "an amount times a number that is not negative: `scale(params.memory, 0.2)`. It is rounded up: to whole units for bytes (a binary suffix, or a million and more), else to thousandths"},
	{"requests(pod, 'cpu')`, `limits(pod, 'cpu')", "what the pod asks for, as the scheduler counts it, with its own `resources` and overhead. A container without a limit adds nothing to `limits`"},
	{"requests(container, 'memory')`, `limits(container, 'memory')", "the same of one container; 0 where nothing is asked for"},
}

func code(text string) string { return "`" + text + "`" }

func functionsPage(t *testing.T) string {
	t.Helper()
	var macros []string
	for _, m := range baseEnvironment().Macros() {
		macros = append(macros, m.Function())
	}
	slices.Sort(macros)
	macros = slices.Compact(macros)
	var b strings.Builder
	b.WriteString("# Functions\n\nFor authors of templates: what an expression can read, and each function of it.\n" +
		"[Expressions](sidecartemplate.md#expressions) says where they stand.\n\n## Names\n\n| name | what it is |\n| --- | --- |\n")
	for _, name := range visibleNames {
		if visibleDocs[name] == "" {
			t.Errorf("the reference does not say what %s is", name)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", code(name), visibleDocs[name])
	}
	b.WriteString("\nThere is no time, no randomness, no environment and no network.\n\n## Functions of Pillion\n\n" +
		"Pillion adds these to the functions of Kubernetes' admission policies:\n\n| function | result |\n| --- | --- |\n")
	for _, f := range functionDocs {
		fmt.Fprintf(&b, "| %s | %s |\n", code(f[0]), f[1])
	}
	b.WriteString("\nAn amount is a quantity, its text (`'500m'`, a parameter, a field of the pod), or a number.\n" +
		"`${…}` writes a quantity as Kubernetes does: `${scale('1', 0.2)}` is `200m`.\n\n## All functions\n\n" +
		"All others are those of Kubernetes' admission policies, without those that ask for permissions.\nThe type after the colon is the result's.\n\n" +
		"Macros: `" + strings.Join(macros, "`, `") + "`.\n\n")
	for _, name := range functionNames() {
		fmt.Fprintf(&b, "- %s\n", forms(baseEnvironment().Functions()[name]))
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
		form = "`" + form + ": " + typeName(o.ResultType()) + "`"
		if !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",\n  ")
}

func typeName(t *types.Type) string {
	name := strings.TrimPrefix(strings.TrimPrefix(t.String(), "kubernetes."), "google.protobuf.")
	return strings.ReplaceAll(name, "optional_type", "optional")
}
