package expression

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	kubernetescel "k8s.io/apiserver/pkg/cel/environment"
	"pgregory.net/rapid"
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

func TestTheReferenceNamesEveryNameAndFunction(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, name := range visibleNames {
		wanted = append(wanted, "| `"+name+"` |")
	}
	for _, name := range functionNames() {
		wanted = append(wanted, name+"(")
	}
	for _, m := range baseEnvironment().Macros() {
		wanted = append(wanted, "`"+m.Function()+"`")
	}
	for _, text := range wanted {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/reference/functions.md does not name %s", text)
		}
	}
}
