package expression

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/rawjson"
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
	pod, err := rawjson.Decode([]byte(`{"metadata":{"name":"p","labels":{"b":"2","a":"1","c":"3"}},"spec":{"containers":[{"name":"x","ports":[{"containerPort":8080}]},{"name":"y"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{
		"port": int64(8080), "text": "a-b-c 127.0.0.1", "list": []any{"x", "y", "x"}, "map": map[string]any{"k": "v", "a": "b"}, "any": map[string]any{"deep": []any{true}},
	}
	namespace := map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]string{"team": "shop"}, "annotations": map[string]string{}}}
	return e, func() *Run {
		return e.Names().Run(t.Context(), pod.(map[string]any), namespace, params)
	}
}

// asCEL evaluates an expression by a program of [cel.Env.Program].
func asCEL(env *cel.Env, s *Scope, checked *cel.Ast) (ref.Val, uint64, error) {
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(&costs{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)), cel.CostLimit(MaxCost), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, 0, err
	}
	v, details, err := program.ContextEval(s.run.ctx, s)
	if err != nil {
		v = nil
	}
	return v, *details.ActualCost(), err
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
	"int":  {"params.port", "1", "size(LIST)", "INT + INT", "INT / INT", "LIST.indexOf('x')", "int(STRING)", "pod.spec.containers[0].ports[0].containerPort", "size(STRING)", "cidr('10.0.0.0/8').prefixLength()", "scale(INT, 2).asInteger()", "requests(pod, STRING).asInteger()", "limits(pod, 'cpu').asInteger()"},
	"bool": {"true", "INT > INT", "STRING == STRING", "has(params.absent)", "has(pod.spec.hostNetwork)", "BOOL && BOOL", "BOOL || BOOL", "!BOOL", "STRING in LIST", "LIST.exists(i, i == STRING)", "LIST.all(i, j, LIST.exists_one(k, k == j && BOOL))", "STRING.matches('^a.*')", "STRING.startsWith('a')", "pod.spec.?hostNetwork.orValue(false)", "isIP(STRING)", "sets.contains(LIST, LIST)", "params.any.deep[0]", "semver('1.2.3').isGreaterThan(semver('1.0.0'))"},
	"list": {"params.list", "['a', STRING]", "LIST + LIST", "LIST.map(i, i + 'z')", "LIST.filter(i, i != STRING)", "params.map.map(k, k)", "pod.metadata.labels.map(k, k)", "LIST.sort()", "LIST.distinct()", "BOOL ? LIST : []", "['a', ?params.?absent]", "LIST.slice(0, 1)", "STRING.findAll('[a-z]')", "pod.metadata.labels.transformList(k, v, k)", "params.map.transformMap(k, v, v + STRING).map(k, k)", "LIST.map(i, LIST.filter(j, j != i).join(STRING))", "LIST.sortBy(i, i + STRING)", "lists.range(3).map(i, string(i))", "[LIST].flatten()"},
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

// Programs are made without cel.Env.Program, which would put a table of all functions into
// each. This holds them to what it makes. One with a price may cost more than it would there.
func TestProgramsGiveWhatThoseOfCELGiveForTheSameCost(t *testing.T) {
	kinds := []string{"string", "int", "bool", "list"}
	failed, gave, priced := 0, 0, 0
	e, newRun := sample(t)
	env := baseEnvironment()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		source := grow(r, kinds[r.IntN(len(kinds))], 3)
		checked, err := e.check(source)
		if err != nil {
			return // the types do not fit
		}
		made, err := sharedPlanner().plan(checked.NativeRep(), false)
		want, wantCost, wantErr := asCEL(env, newRun().Scope(), checked)
		if err != nil {
			if wantErr == nil || err.Error() != wantErr.Error() {
				rt.Fatalf("%s: planning: %v, by CEL: %v", source, err, wantErr)
			}
			return
		}
		got, cost, gotErr := made.run(t.Context(), newRun().Scope())
		if gotErr == nil && wantErr == nil {
			gave++
			limit, same := budget{bytes: MaxBytes}, budget{bytes: MaxBytes}
			a, errA := toNative(got, &limit)
			b, errB := toNative(want, &same)
			if !reflect.DeepEqual(a, b) || fmt.Sprint(errA) != fmt.Sprint(errB) {
				rt.Fatalf("%s gives %v (%v), by CEL %v (%v)", source, a, errA, b, errB)
			}
		} else {
			failed++
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				rt.Fatalf("%s: %v, by CEL: %v", source, gotErr, wantErr)
			}
		}
		if made.counted == nil {
			priced++
		}
		if made.counted != nil && cost != wantCost || cost < wantCost {
			rt.Fatalf("%s costs %d, by CEL %d", source, cost, wantCost)
		}
	})
	if failed == 0 || gave == 0 || priced == 0 {
		t.Errorf("%d expressions gave a value, and %d failed, %d had a price; want some of each", gave, failed, priced)
	}
}

func TestAProgramEndsAtItsCostAsThoseOfCEL(t *testing.T) {
	e, newRun := sample(t)
	checked, err := e.check("lists.range(1000).map(i, lists.range(1000).map(j, i + j))")
	if err != nil {
		t.Fatal(err)
	}
	made, err := sharedPlanner().plan(checked.NativeRep(), false)
	if err != nil {
		t.Fatal(err)
	}
	_, cost, err := made.run(t.Context(), newRun().Scope())
	_, wantCost, wantErr := asCEL(baseEnvironment(), newRun().Scope(), checked)
	var cancelled interpreter.EvalCancelledError
	if !errors.As(err, &cancelled) || fmt.Sprint(err) != fmt.Sprint(wantErr) || cost != wantCost {
		t.Errorf("%v for %d, by CEL %v for %d", err, cost, wantErr, wantCost)
	}
}

func TestOnlyAnExpressionWhoseCostDoesNotDependOnThePodHasAPrice(t *testing.T) {
	e, _ := sample(t)
	for source, want := range map[string]bool{
		"pod.metadata.?labels[?'a'].orValue('none')":      true,
		"has(pod.spec.hostNetwork) ? params.text : 'x'":   true,
		"pod.metadata.name != 'x' && size(params.list)>0": false,
		"pod.metadata.name != 'x'":                        true,
		"pod.metadata.labels == params.map":               false,
		"pod.spec.containers.map(c, c.name)":              false,
		"params.?absent.optMap(a, a)":                     false,
		"pod.metadata.name + 'x'":                         false,
		"'x' in params.list":                              false,
		"toJson(pod)":                                     false,
	} {
		checked, err := e.check(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := priceOf(checked.NativeRep().Expr()); known != want {
			t.Errorf("%s has a price: %t, want %t", source, known, want)
		}
	}
}
