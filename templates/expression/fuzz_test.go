package expression_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// slowest is how long any expression may take to compile and to run twice, on a machine
// that does other things too.
const slowest = 10 * time.Second

const fuzzedPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {
	"initContainers": [{"name": "migrate", "image": "m:1"}],
	"containers": [{"name": "web", "image": "w:1", "ports": [{"name": "http", "containerPort": 3000}]}]}}`

// FuzzExpressionsStayWithinTheirCost holds that whatever an author writes and a tenant sets
// ends soon: with a mistake, a value, or the bound. The same input gives the same.
//
//fuzz:slow compiles an expression and runs it, at most up to its cost limit
func FuzzExpressionsStayWithinTheirCost(f *testing.F) {
	for _, seed := range []string{
		"1", "params.text", "params.items.map(a, a + a)", "pod.spec.containers[0].image", "'a'.matches('(a+)+$')", "params.text.split('').map(c, c + c).join('')",
		"params.items.map(a, params.items.map(b, params.items.map(c, a + b + c))).size()", "[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, x + y + z > 0)))",
		"params.text.replace('a', 'aaaaaaaaaa').replace('a', 'aaaaaaaaaa').replace('a', 'aaaaaaaaaa').replace('a', 'aaaaaaaaaa')", "toJson(pod)", "shellQuote(params.text)",
		"quantity('1Gi').add(quantity('1Mi')).asInteger()", "'%s %s'.format([params.text, params.items])", "cidr('10.0.0.0/8').containsIP('10.1.2.3')", "params.items.sortBy(x, x)",
		"{'a': 1}.map(k, k)", "params.text.lowerAscii().charAt(0)", "duration('1h').getSeconds()", "semver('1.2.3').major()", "dyn(params).items[100]", "pod.?x.orValue('')",
		"pod.metadata.labels.map(k, pod.metadata.labels[k])", "params.map.?a.orValue('')", "{'b': 2, 'a': 1}", "null", "0.1 + 0.2", "b'a'", "1u", "scale(params.text, 0.2)", "requests(pod, params.text)", "limits(pod.spec.containers[0], 'cpu')",
		"{'a': 1}.merge({'b': 2}).merge(params.map)", "base64.encode(bytes(params.text))", "string(base64.decode(params.text))", "9223372036854775807 + 1", "a b",
	} {
		f.Add(seed, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "b")
	}
	var problem string
	environment := func(t testing.TB) *expression.Environment {
		env, err := expression.NewEnvironment(expression.Template{
			Patterns: &param.Patterns{},
			Parameters: []v1alpha1.Parameter{
				{Name: "text", Constraints: v1alpha1.Constraints{}, Type: v1alpha1.String},
				{Name: "items", Type: v1alpha1.List, Items: &v1alpha1.Items{Type: v1alpha1.String}},
				{Name: "map", Type: v1alpha1.Map, Items: &v1alpha1.Items{Type: v1alpha1.String}},
			},
			Problem: func(_ expression.Place, message string) { problem = message },
			Warn:    func(expression.Place, string) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	env, compiled := environment(f), 0
	decoded, err := rawjson.Decode([]byte(fuzzedPod))
	if err != nil {
		f.Fatal(err)
	}
	pod := decoded.(map[string]any)
	before := string(podschema.Encode(pod))
	f.Fuzz(func(t *testing.T, source, text, item string) {
		if len(source) > 512 || len(text) > 4096 || len(item) > 256 {
			return
		}
		began := time.Now()
		problem = ""
		if compiled++; compiled%expression.MaxExpressions == 0 { // a template has no more
			env = environment(t)
		}
		e := env.Compile(source, expression.Place{})
		if e == nil && problem == "" {
			t.Fatalf("%q is no expression, and nothing says why", source)
		}
		if strings.ContainsFunc(problem, unicode.IsControl) || len(problem) > 64<<10 {
			t.Fatalf("%q: the problem %q is not fit to print", source, problem)
		}
		if e == nil {
			return
		}
		params := map[string]any{"text": text, "items": []any{item, "b", item}, "map": map[string]any{"a": item}}
		namespace := map[string]any{"metadata": map[string]any{"name": "shop"}}
		run := func() (any, error) {
			return e.Value(env.Names().Run(t.Context(), &expression.Budget{}, pod, namespace, params).Scope())
		}
		first, err := run()
		again, err2 := run()
		if took := time.Since(began); took > slowest {
			t.Errorf("%s took %s", source, took)
		}
		if !reflect.DeepEqual(first, again) || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("%q gives %v, %v, and then %v, %v", source, first, err, again, err2)
		}
		if string(podschema.Encode(pod)) != before {
			t.Fatalf("%q changed the pod", source)
		}
		var failure *expression.Error
		if err != nil && (!errors.As(err, &failure) || strings.ContainsFunc(failure.Message, unicode.IsControl)) {
			t.Fatalf("%q: error %T %q", source, err, err)
		}
		if err != nil {
			return
		}
		if text, err := json.Marshal(first); err != nil || len(text) > 6*expression.MaxBytes {
			t.Fatalf("%q gives %d bytes (%v)", source, len(text), err)
		}
	})
}
