package expression

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// sample is an environment with parameters of all kinds, and a run in it.
func sample(t *testing.T) (*Environment, func() *Run) {
	t.Helper()
	items := &v1alpha1.Items{Type: "string"}
	e, err := NewEnvironment(Template{
		Parameters: []v1alpha1.Parameter{
			{Name: "port", Type: "integer"}, {Name: "text", Type: "string"}, {Name: "list", Type: "list", Items: items},
			{Name: "map", Type: "map", Items: items}, {Name: "any", Type: "json"}, {Name: "absent", Type: "string"},
		},
		Values:  map[string]any{"region": "eu"},
		Problem: func(_ Place, message string) { t.Fatal(message) },
		Warn:    func(Place, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Declare("greeting", e.Compile("'hello ' + params.text", Place{}))
	e.Declare("broken", e.Compile("string(1 / (params.port - params.port))", Place{}))
	pod, err := manifest.DecodeJSON([]byte(`{"metadata":{"name":"p","labels":{"b":"2","a":"1","c":"3"}},"spec":{"containers":[{"name":"x","ports":[{"containerPort":8080}]},{"name":"y"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{
		"port": int64(8080), "text": "a-b-c 127.0.0.1", "list": []any{"x", "y", "x"}, "map": map[string]any{"k": "v", "a": "b"}, "any": map[string]any{"deep": []any{true}},
	}
	namespace := map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]string{"team": "shop"}, "annotations": map[string]string{}}}
	return e, func() *Run {
		return e.Names().Run(t.Context(), pod.(map[string]any), func() map[string]any { return namespace }, params, KubernetesVersion{Major: 1, Minor: 36})
	}
}

// terms are expressions, by the type of their values.
var terms = map[string][]string{
	"string": {
		"params.text", "'x'", "variables.greeting", "variables.broken", "pod.metadata.name", "params.?absent.orValue(STRING)", "params.map[?'k'].orValue(STRING)", "params.map['none']",
		"namespaceObject.metadata.labels['team']", "string(INT)", "STRING + STRING", "BOOL ? STRING : STRING", "LIST.join(',')", "STRING.replace('a', 'b')", "values.region",
		"toJson(LIST)", "shellQuote(STRING)", "STRING.find('[0-9]+')", "STRING.lowerAscii()", "params.?absent.or(params.map[?'k']).or(optional.of(STRING)).value()",
		"string(ip('127.0.0.1'))", "string(quantity('1Gi').asInteger())", "STRING.split('-')[0]", "STRING.substring(1)", "LIST.first().orValue(STRING)",
		"base64.encode(bytes(STRING))", "string(base64.decode(STRING))", "params.map.merge({STRING: STRING})['k']", "string(scale(STRING, 0.2).asInteger())",
	},
	"int":  {"params.port", "1", "size(LIST)", "INT + INT", "INT / INT", "LIST.indexOf('x')", "int(STRING)", "pod.spec.containers[0].ports[0].containerPort", "size(STRING)", "cidr('10.0.0.0/8').prefixLength()", "kubernetes.minor", "dyn(kubernetes).major", "minQ(INT, STRING).asInteger()", "maxQ(INT, '3').asInteger()", "requests(pod, STRING).asInteger()", "limits(pod, 'cpu').asInteger()"},
	"bool": {"true", "INT > INT", "STRING == STRING", "has(params.absent)", "has(pod.spec.hostNetwork)", "BOOL && BOOL", "BOOL || BOOL", "!BOOL", "STRING in LIST", "LIST.exists(i, i == STRING)", "STRING.matches('^a.*')", "STRING.startsWith('a')", "pod.spec.?hostNetwork.orValue(false)", "isIP(STRING)", "sets.contains(LIST, LIST)", "params.any.deep[0]", "semver('1.2.3').isGreaterThan(semver('1.0.0'))"},
	"list": {"params.list", "['a', STRING]", "LIST + LIST", "LIST.map(i, i + 'z')", "LIST.filter(i, i != STRING)", "params.map.map(k, k)", "pod.metadata.labels.map(k, k)", "LIST.sort()", "LIST.distinct()", "BOOL ? LIST : []", "['a', ?params.?absent]", "LIST.slice(0, 1)", "STRING.findAll('[a-z]')", "pod.metadata.labels.transformList(k, v, k)", "lists.range(3).map(i, string(i))", "[LIST].flatten()"},
}

// grow writes an expression of a type.
func grow(r *rand.Rand, kind string, depth int) string {
	text := terms[kind][r.IntN(len(terms[kind]))]
	if depth == 0 {
		text = terms[kind][0]
	}
	for {
		at, next := -1, ""
		for name, of := range map[string]string{"STRING": "string", "INT": "int", "BOOL": "bool", "LIST": "list"} {
			if i := strings.Index(text, name); i >= 0 && (at < 0 || i < at) {
				at, next = i, of
			}
		}
		if at < 0 {
			return "(" + text + ")"
		}
		text = text[:at] + grow(r, next, depth-1) + text[at+len(next):]
	}
}

// An expression gives the same value for the same cost each time, or the same error.
func TestAnExpressionGivesTheSameEachTime(t *testing.T) {
	kinds := []string{"string", "int", "bool", "list"}
	failed, gave := 0, 0
	e, newRun := sample(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		source := grow(r, kinds[r.IntN(len(kinds))], 3)
		compiled, err := e.run.compile(source, Place{})
		if err != nil {
			return // the types do not fit
		}
		var values, errs [2]any
		var costs [2]uint64
		for i := range 2 {
			run := newRun()
			values[i], errs[i] = compiled.Value(run.Scope())
			costs[i] = run.cost
		}
		if !reflect.DeepEqual(values[0], values[1]) || fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) || costs[0] != costs[1] {
			rt.Fatalf("%s gives %v (%v) for %d, and then %v (%v) for %d", source, values[0], errs[0], costs[0], values[1], errs[1], costs[1])
		}
		if errs[0] != nil {
			failed++
		} else {
			gave++
		}
	})
	if failed == 0 || gave == 0 {
		t.Errorf("%d expressions gave a value, and %d failed; want some of each", gave, failed)
	}
}

func TestAnEvaluationEndsAtItsCost(t *testing.T) {
	e, newRun := sample(t)
	compiled, err := e.run.compile("lists.range(1000).map(i, lists.range(1000).map(j, i + j))", Place{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = compiled.Value(newRun().Scope())
	var failed *Error
	if !errors.As(err, &failed) || !failed.TooExpensive {
		t.Errorf("%v, want an error about the cost", err)
	}
}
