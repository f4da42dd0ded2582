package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/internal/tabletest"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

// twoAndTwo is a pod with two init containers and two containers.
const twoAndTwo = `{"metadata":{"labels":{"app":"web"}},"spec":{
	"initContainers":[{"name":"i1","image":"i"},{"name":"i2","image":"i"}],
	"containers":[{"name":"c1","image":"c","ports":[{"containerPort":80}]},{"name":"c2","image":"c"}]}}`

func TestFragments(t *testing.T) {
	for _, c := range tabletest.Rows(t, "testdata/tables/fragments.txt") {
		t.Run(c.Name, func(t *testing.T) {
			tmpl := compiledWith(t, manifestOf(c.Input), Options{Source: "t.yaml", Values: map[string]any{"cluster": map[string]any{"name": "east"}, "n": json.Number("9007199254740993")}})
			pod := raw(t, twoAndTwo)
			before := asJSON(t, pod)
			in := Input{Pod: pod, Namespace: Namespace{Name: "ns", Labels: map[string]string{"team": "red"}, Annotations: map[string]string{"x": "y"}}}
			got := rendered(t, tmpl, in).Fragment
			if c.Want() == "null" {
				if got != nil {
					t.Errorf("fragment %s, want nil", asJSON(t, fragmenttest.JSON(got)))
				}
			} else {
				wantFragment(t, got, c.Want())
			}
			if asJSON(t, pod) != before {
				t.Error("the pod was modified")
			}
		})
	}
}

func TestNumbersThatAnExpressionPassesOnStayExact(t *testing.T) {
	tmpl := compiled(t, "allowUnknownFields: true\nparameters: [{name: j, type: json}]\ninject: {spec: {newField: \"${params.?j}\"}}")
	text := `{"a":1.10,"b":[123456789012345678901234567890,1e400]}`
	got := asJSON(t, fragmenttest.JSON(rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/j": text})}).Fragment))
	if want := `{"spec":{"newField":` + text + `}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The fragment below fails for a pod that the condition or the validation keeps out.
func TestConditionsAndValidationsAreJudgedBeforeTheFragmentIsRendered(t *testing.T) {
	const isNumber = "pod.?metadata.?annotations[?'port'].orValue('80').matches('^[0-9]+$')"
	const inject = "inject: {spec: {initContainers: [{name: s, image: busybox, args: [\"--port=${int(pod.?metadata.?annotations[?'port'].orValue('80')) + 1}\"]}]}}"
	pod := onePod(t, map[string]string{"port": "http"})
	r := rendered(t, compiled(t, `validations: [{name: number, expression: "`+isNumber+`", message: the annotation port must be a number}]`+"\n"+inject), Input{Pod: pod})
	if len(r.Invalid) != 1 || r.Invalid[0].Message != "the annotation port must be a number" || r.Fragment != nil {
		t.Errorf("invalid %+v, fragment %v", r.Invalid, r.Fragment)
	}
	r = rendered(t, compiled(t, `matchConditions: [{name: number, expression: "`+isNumber+`"}]`+"\n"+inject), Input{Pod: pod})
	if r.Unmet == nil || r.Fragment != nil {
		t.Errorf("unmet %+v, fragment %v", r.Unmet, r.Fragment)
	}
}

// An earlier template may add an annotation. It sets no parameter.
func TestParametersAreReadFromTheAuthorsAnnotations(t *testing.T) {
	tmpl := compiled(t, "parameters: [{name: p, type: string, default: default}, {name: m, type: map, items: string}]\n"+
		"inject: {metadata: {labels: {p: \"${params.p}\", m: \"${params.?m.a}\", seen: \"${pod.metadata.?annotations[?'t.pillion.dev/p']}\"}}}")
	in := Input{Pod: onePod(t, map[string]string{"t.pillion.dev/p": "added", "t.pillion.dev/m.a": "added"}), Author: onePod(t, nil)}
	wantFragment(t, rendered(t, tmpl, in).Fragment, `{"metadata":{"labels":{"p":"default","seen":"added"}}}`)
	in.Author = onePod(t, map[string]string{"t.pillion.dev/p": "author"})
	wantFragment(t, rendered(t, tmpl, in).Fragment, `{"metadata":{"labels":{"p":"author","seen":"added"}}}`)
}

func TestWhatFailsForAPodIsARenderError(t *testing.T) {
	for _, c := range tabletest.Rows(t, "testdata/tables/failures.txt") {
		t.Run(c.Name, func(t *testing.T) {
			labels, rest, _ := strings.Cut(c.Want(), " ")
			path, says, _ := strings.Cut(rest, ": ")
			tmpl, _, err := Compile(manifestOf(c.Input), Options{})
			if err != nil {
				// The full pod has labels and lacks this one.
				if !strings.Contains(err.Error(), says) {
					t.Fatal(err)
				}
				return
			}
			pod := onePod(t, nil)
			pod["metadata"].(map[string]any)["labels"] = raw(t, labels)
			_, err = tmpl.Render(t.Context(), Input{Pod: pod})
			var failed *RenderError
			if !errors.As(err, &failed) || failed.Path != path || failed.Line != 5 && failed.Line != 6 || !strings.Contains(failed.Message, says) || strings.ContainsRune(failed.Message, '\x1b') {
				t.Errorf("want %s to say %q; got %v", path, says, err)
			}
		})
	}
}

func TestWhatATenantCanMakeATemplateCostIsBounded(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("a,", 900), ",")
	for name, c := range map[string]struct{ spec, value, says string }{
		"cost of one expression":                          {"inject: {metadata: {labels: {a: \"${string(params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size())}\"}}}", long, "costs more than 100000"},
		"cost that || would hide":                         {"inject: {spec: {hostNetwork: \"${params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size() > 0 || true}\"}}", long, "costs more than 100000"},
		"cost of a variable that || would hide":           {"variables: [{name: v, expression: \"params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size() > 0\"}]\ninject: {spec: {hostNetwork: \"${variables.v || true}\"}}", long, "costs more than 100000"},
		"cost of a variable that is read again and again": {"variables: [{name: v, expression: \"params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size() > 0\"}]\ninject: {spec: {hostNetwork: \"${params.l.all(x, variables.v || true)}\"}}", long, "costs more than 100000"},
		"repetitions inside repetitions":                  {"inject: {spec: {containers: [{$for: \"x in params.l\", name: \"${x}\", image: i, env: [{$for: \"y in params.l\", $if: \"x == y && false\", name: a}]}]}}", strings.Join(numbers(900), ","), "together cost more than 500000"},
		"reads in repetitions":                            {"variables: [{name: never, expression: \"false\"}]\ninject: {spec: {containers: [{$for: \"x in params.l\", name: \"${x}\", image: i, env: [" + strings.Repeat("{$if: variables.never, name: a}, ", 300) + "]}]}}", strings.Join(numbers(900), ","), "together cost more than 500000"},
		"cost of all together":                            {"inject: {spec: {volumes: [{$for: \"x in params.l\", name: \"${x}${params.l.map(y, y).size()}\"}]}}", strings.Join(numbers(300), ","), "together cost more than 500000"},
		"repetitions":                                     {"inject: {spec: {volumes: [{$for: \"x in params.l\", name: \"${x}\"}]}}", strings.Join(numbers(expression.MaxIterations+1), ","), "$for repeats more than 1000 times"},
		"bytes":                                           {"inject: {metadata: {annotations: {a: \"${params.l.join()}${params.l.join()}${params.l.join()}\"}}}", strings.Repeat("x", 100_000), "larger than 262144 bytes"},
		"bytes of constants":                              {"inject: {spec: {volumes: [{$for: \"x in params.l\", name: \"${x}\", configMap: {name: " + strings.Repeat("c", 2000) + "}}]}}", strings.Join(numbers(200), ","), "larger than 262144 bytes"},
		"bytes of toJson":                                 {"inject: {metadata: {annotations: {a: \"${string(toJson([params.l, params.l, params.l]).size())}\"}}}", strings.Repeat("x", 100_000), "more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := compiled(t, "parameters: [{name: l, type: list, items: string, default: [a]}]\n"+c.spec)
			_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/l": c.value})})
			var failed *RenderError
			if !errors.As(err, &failed) || !failed.TooExpensive || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("n", i)
	}
	return out
}
