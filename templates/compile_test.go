package templates

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/internal/tabletest"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/manifest"
)

func TestEachMistakeIsNamedWithItsPathAndLine(t *testing.T) {
	for _, c := range tabletest.Rows(t, "testdata/tables/mistakes.txt") {
		t.Run(c.Name, func(t *testing.T) {
			number, rest, _ := strings.Cut(c.Want(), " ")
			path, says, _ := strings.Cut(rest, ": ")
			line, err := strconv.Atoi(number)
			errtest.ExpectNone(t, err)
			_, _, err = Compile(manifestOf(c.Input), Options{Source: "dir/t.yaml"})
			var bad *CompileError
			if !errors.As(err, &bad) || !slices.ContainsFunc(bad.Problems, func(p Problem) bool {
				return p.Path == path && (line == 0 || p.Line == line+4) && strings.Contains(p.Message, says)
			}) {
				t.Errorf("want %s on line %d to say %q; got\n%v", path, line+4, says, err)
			}
		})
	}
}

func TestAllMistakesAreReportedTogetherInTheOrderOfTheFile(t *testing.T) {
	_, _, err := Compile(manifestOf(`
ordr: 1
parameters: [{name: a, type: int}]
variables: [{name: b, expression: nope}]
inject:
  spec:
    volumes: {}
    nodeName: ${params.x}`), Options{Source: "t.yaml", FirstLine: 101})
	want := []string{
		"t.yaml:105: template t: spec.ordr: unknown field; did you mean order?",
		`t.yaml:106: template t: spec.parameters[0].type: must be one of string, integer, number, boolean, quantity, duration, image, json, list, map; got "int"`,
		`t.yaml:107: template t: spec.variables[0].expression: in the expression ">>>nope": undeclared reference to 'nope'`,
		"t.yaml:110: template t: spec.inject.spec.volumes: must be a list; got an object",
		`t.yaml:111: template t: spec.inject.spec.nodeName: in the expression "params.>>>x": no parameter x is declared`,
	}
	got := strings.Split(fmt.Sprint(err), "\n")
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n%v", len(got), len(want), err)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

func TestAManifestThatIsNoneIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":             {"", "must be an object; got null"},
		"a list":            {"[1]", "must be an object; got a list"},
		"no YAML":           {"a: b: c", "t.yaml:1: reading the manifest as YAML: mapping values are not allowed"},
		"no YAML far below": {"a: b\nc: d\ne: f: g\n", "t.yaml:3: "},
		"an indentation":    {"a:\n  b:\n    c: 1\n   d: 2\ne: 1\n", "t.yaml:4: reading the manifest as YAML: did not find"},
		"no quotes":         {"a: 1\nb: {c: 'x', d: ${params.x}}\ne: 1\n", `t.yaml:2: `},
		"no quotes, told":   {"a: 1\nb: {c: 'x', d: ${params.x}}\ne: 1\n", `inside {…} and […] quote ${…}, as in {name: "${params.name}"}`},
		"a tab":             {"a: 1\nb:\n\tc: 1\nd: 1\n", "t.yaml:3: reading the manifest as YAML: found character that cannot start any token"},
		"two documents":     {"a: 1\n---\nb: 1\n", "several documents"},
		"another kind":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", `t.yaml:2: template a: kind: must be SidecarTemplate or NamespacedSidecarTemplate; got "Pod"`},
		"another group":     {"apiVersion: side.example.com/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a}\nspec: {inject: {}}", "t.yaml:1: template a: apiVersion: "},
		"a bad name":        {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: A_b}\nspec: {inject: {}}", "t.yaml:3: metadata.name: must be a DNS label"},
		"no spec":           {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a}", "spec: is missing"},
		"a bad metadata":    {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a, lables: {}}\nspec: {inject: {}}", "t.yaml:3: template a: metadata.lables: unknown field; did you mean labels?"},
		"too many bytes":    {strings.Repeat("#", manifest.MaxBytes+1), "at most 1048576 are allowed"},
		"a loop of aliases": {"a: &a [*a]", "value contains itself"},
		"a bomb of aliases": {"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e]", "excessive aliasing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Compile([]byte(c.text), Options{Source: "t.yaml"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q in it", err, c.says)
			}
		})
	}
}

// An object of the cluster has no lines to sort its mistakes by.
func TestTheMistakesOfAnObjectComeInOneOrder(t *testing.T) {
	text := []byte(`{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"a"},"spec":{"inject":{"spec":{"containers":[
		{"$each":"App","name":"a","image":"a","$position":"First","$patch":"delete"}]}}}}`)
	_, _, first := Compile(text, Options{Source: "SidecarTemplate/a"})
	if strings.Count(fmt.Sprint(first), "\n") != 3 || !strings.HasPrefix(fmt.Sprint(first), "SidecarTemplate/a: template a: spec.") {
		t.Fatalf("want four mistakes without lines:\n%v", first)
	}
	for range 20 {
		if _, _, err := Compile(text, Options{Source: "SidecarTemplate/a"}); err.Error() != first.Error() {
			t.Fatalf("one time\n%v\nand another time\n%v", first, err)
		}
	}
}

func TestYAMLAndJSONOfOneTemplateHaveOneHash(t *testing.T) {
	yaml := compiled(t, "# a comment\ninject: {metadata: {labels: {b: x, a: \"1\"}}}\norder: 5\nparameters: [{name: p, type: integer, default: 1}]")
	json := compiledWith(t, []byte(`{"kind":"SidecarTemplate","apiVersion":"pillion.dev/v1alpha1","metadata":{"name":"t","generation":4},
		"spec":{"onConflict":"Deny","onError":"Deny","order":5,"inject":{"metadata":{"labels":{"a":"1","b":"x"}}},"parameters":[{"default":1,"type":"integer","name":"p","setBy":["Namespace","Pod"]}]}}`), Options{Source: "SidecarTemplate/t"})
	if yaml.Hash() != json.Hash() || len(yaml.Hash()) != 16 {
		t.Errorf("hashes %q and %q", yaml.Hash(), json.Hash())
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range tabletest.Rows(t, "testdata/tables/warnings.txt") {
		t.Run(c.Name, func(t *testing.T) {
			_, warnings, err := Compile(manifestOf(c.Input), Options{Source: "t.yaml"})
			errtest.ExpectNone(t, err)
			var got []string
			for _, w := range warnings {
				got = append(got, w.String())
			}
			if all := strings.Join(got, "\n"); c.Want() == "" && all != "" || !strings.Contains(all, c.Want()) {
				t.Errorf("warnings %q, want %q", all, c.Want())
			}
		})
	}
}

func TestNobodyMaySetTheParametersOfARequiredTemplateUnlessItSaysSo(t *testing.T) {
	tmpl := compiled(t, "match: {}\nrequired: true\nparameters:\n- {name: a, type: string, default: x}\n- {name: b, type: string, default: x, setBy: [Pod]}\ninject: {metadata: {labels: {a: \"${params.a}\", b: \"${params.b}\"}}}")
	if a, b := tmpl.Parameters()[0].SetBy, tmpl.Parameters()[1].SetBy; len(a) != 0 || len(b) != 1 {
		t.Errorf("set by %v and %v; want nobody, and the pod", a, b)
	}
	_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/a": "y"})})
	if err == nil || !strings.Contains(err.Error(), "may be set by nobody") {
		t.Errorf("error %v", err)
	}
	rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/b": "y"})})
}

// A selector that lost the part that could not be read selects more than was meant: all
// pods of the cluster, as a rule.
func TestABrokenTemplateMatchesNothingByASelectorThatCannotBeRead(t *testing.T) {
	for _, spec := range []string{
		"match: {namespaceSelektor: {matchLabels: {team: payments}}}",
		"match: {namespaceSelector: {matchLabels: [team, payments]}}",
		"match: {podSelector: {matchLabels: {app: y}}, namespaceSelector: {matchLabels: {a: b}}}",
		"match: {podSelector: {matchExpressions: [{key: a, operator: Inn, values: [b]}]}}",
		"match: {podSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {c: d}}}",
		"match: [podSelector]",
		"required: true\nmatch: {podSelectors: {}}",
	} {
		_, _, err := Compile(manifestOf(spec+"\ninject: {spec: {nodeName: x}}"), Options{})
		var bad *CompileError
		if !errors.As(err, &bad) || bad.Broken == nil {
			t.Fatalf("%s: error %v", spec, err)
		}
		if namespace, pod, ok := bad.Broken.Match(); ok {
			t.Errorf("%s: it matches namespaces %q, pods %q", spec, namespace, pod)
		}
	}
}

// As kubectl get sidecartemplates prints them.
func TestTheItemsOfAListAreManifestsWithTheLineOfEach(t *testing.T) {
	const good = "apiVersion: pillion.dev/v1alpha1\n  kind: SidecarTemplate\n  metadata: {name: NAME}\n  spec:\n    ORDER: 1\n    inject:\n      metadata:\n        annotations:\n          a: |\n            text\n\n            # and no comment\n"
	item := func(name, order string) string {
		return strings.NewReplacer("NAME", name, "ORDER", order).Replace(good)
	}
	asJSON := func(text string) string {
		converted, err := yaml.YAMLToJSON([]byte(text))
		errtest.ExpectNone(t, err)
		return string(converted)
	}
	flat := func(name, order string) string { return strings.ReplaceAll(item(name, order), "\n  ", "\n") }
	list := "apiVersion: v1\nitems:\n- " + item("a", "order") + "# between\n- " + item("b", "ordr") + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	indented := "apiVersion: v1\nkind: SidecarTemplateList\nitems:\n" + strings.ReplaceAll("- "+item("a", "order")+"- "+item("b", "ordr"), "\n", "\n  ")
	indented = strings.Replace(indented, "items:\n- ", "items:\n  - ", 1)
	for _, c := range []struct {
		what, text string
		line       int
	}{
		{"block style", list, 16}, {"indented", indented, 16}, {"CRLF", strings.ReplaceAll(list, "\n", "\r\n"), 16},
		{"a second document", "kind: List\nitems: []\n---\n" + list, 19},
		{"flow style", "kind: List\nitems: [" + asJSON(flat("a", "order")) + ",\n  " + asJSON(flat("b", "ordr")) + "]\n", 3},
	} {
		docs := ParseFile([]byte(c.text))
		if len(docs) != 2 {
			t.Errorf("%s: %d manifests\n%s", c.what, len(docs), c.text)
			continue
		}
		tmpl, _, err := Compile(docs[0].Manifest, Options{Source: "f", FirstLine: docs[0].Line})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if got := rendered(t, tmpl, Input{Pod: onePod(t, nil)}).Fragment; !strings.Contains(fmt.Sprint(fragmenttest.JSON(got)), "text\n\n# and no comment") {
			t.Errorf("%s: fragment %v", c.what, got)
		}
		_, _, err = Compile(docs[1].Manifest, Options{Source: "f", FirstLine: docs[1].Line})
		if want := fmt.Sprintf("f:%d: template b: spec.ordr: unknown field", c.line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v; want %s\n%s", c.what, err, want, c.text)
		}
	}
	for _, text := range []string{"kind: List\nitems: {}\n", "kind: Pod\nitems: [] # List\n", "kind: List\nitems: x: y\n"} {
		if docs := ParseFile([]byte(text)); len(docs) != 1 || string(docs[0].Manifest) != text {
			t.Errorf("%q: %d manifests", text, len(docs))
		}
	}
}

// Each expression is a program in memory. Everybody who reaches the port can send a
// template to the guard.
func TestATemplateHasSoManyExpressionsAtMost(t *testing.T) {
	manifest := func(n int, expr string) string {
		var env strings.Builder
		for i := range n {
			fmt.Fprintf(&env, ",{\"name\":\"A%d\",\"value\":\"${%s}\"}", i, expr)
		}
		return `{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"t"},"spec":{"inject":{"spec":{"initContainers":[{"name":"a","image":"x","env":[` + env.String()[1:] + `]}]}}}}`
	}
	if _, _, err := Compile([]byte(manifest(1000, "'x'")), Options{}); err != nil {
		t.Errorf("1000 expressions: %v", err)
	}
	for name, text := range map[string]string{
		"is one expression too many: a template may have 1000": manifest(5000, "'x'"),
		"is an expression of 20002 bytes; allowed are 16384":   manifest(1, "'"+strings.Repeat("x", 20_000)+"'"),
	} {
		_, _, err := Compile([]byte(text), Options{})
		if err == nil || strings.Count(err.Error(), name) != 1 || len(err.Error()) > 4096 {
			t.Errorf("%.4096v; want one line with %q", err, name)
		}
	}
}
