package expression

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// terms are expressions, by the type of their values.
var terms = map[string][]string{
	"string": {
		"params.text", "'x'", "variables.greeting", "variables.broken", "pod.metadata.name", "params.?absent.orValue(STRING)", "params.map[?'k'].orValue(STRING)", "params.map['none']",
		"namespaceObject.metadata.labels['team']", "string(INT)", "STRING + STRING", "BOOL ? STRING : STRING", "LIST.join(',')", "LIST.join()", "STRING.replace('a', 'b')", "STRING.replace('', STRING, 2)", "values.region",
		"toJson(LIST)", "shellQuote(STRING)", "STRING.find('[0-9]+')", "STRING.find(STRING)", "STRING.lowerAscii()", "params.?absent.or(params.map[?'k']).or(optional.of(STRING)).value()",
		"string(ip('127.0.0.1'))", "string(quantity('1Gi').asInteger())", "STRING.split('-')[0]", "STRING.substring(1)", "LIST.first().orValue(STRING)", "'%s %d'.format([STRING, INT])",
		"base64.encode(bytes(STRING))", "string(base64.decode(STRING))", "params.map.merge({STRING: STRING})['k']", "string(scale(STRING, 0.2).asInteger())",
	},
	"int":  {"params.port", "1", "size(LIST)", "INT + INT", "INT / INT", "LIST.indexOf('x')", "STRING.indexOf(STRING)", "STRING.lastIndexOf('a')", "int(STRING)", "pod.spec.containers[0].ports[0].containerPort", "size(STRING)", "cidr('10.0.0.0/8').prefixLength()", "scale(INT, 2).asInteger()", "requests(pod, STRING).asInteger()", "limits(pod, 'cpu').asInteger()"},
	"bool": {"true", "INT > INT", "STRING == STRING", "STRING != STRING", "LIST == LIST", "dyn(LIST) != dyn(STRING)", "has(params.absent)", "has(pod.spec.hostNetwork)", "BOOL && BOOL", "BOOL || BOOL", "!BOOL", "STRING in LIST", "STRING in params.map", "'a' in ['a', 'b']", "LIST.exists(i, i == STRING)", "LIST.all(i, j, LIST.exists_one(k, k == j && BOOL))", "STRING.matches('^a.*')", "matches(STRING, 'b')", "STRING.matches(STRING)", "STRING.startsWith('a')", "pod.spec.?hostNetwork.orValue(false)", "isIP(STRING)", "sets.contains(LIST, LIST)", "sets.intersects(LIST, LIST)", "params.any.deep[0]", "semver('1.2.3').isGreaterThan(semver('1.0.0'))", "quantity('1Gi').isGreaterThan(quantity('1Mi'))"},
	"list": {"params.list", "['a', STRING]", "LIST + LIST", "LIST.map(i, i + 'z')", "LIST.filter(i, i != STRING)", "params.map.map(k, k)", "pod.metadata.labels.map(k, k)", "LIST.sort()", "LIST.distinct()", "LIST.reverse()", "BOOL ? LIST : []", "['a', ?params.?absent]", "LIST.slice(0, 1)", "STRING.findAll('[a-z]')", "STRING.findAll('[a-z]', INT)", "pod.metadata.labels.transformList(k, v, k)", "params.map.transformMap(k, v, v + STRING).map(k, k)", "LIST.map(i, LIST.filter(j, j != i).join(STRING))", "LIST.sortBy(i, i + STRING)", "lists.range(3).map(i, string(i))", "[LIST].flatten()", "dyn([LIST, [LIST]]).flatten(2)"},
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

func TestCallsThatAreCountedGiveWhatTheyGiveUncounted(t *testing.T) {
	kinds := []string{"string", "int", "bool", "list"}
	failed, gave := 0, 0
	e, newRun := sample(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		source := grow(r, kinds[r.IntN(len(kinds))], 3)
		checked, patterns, err := e.check(source)
		if err != nil {
			return // the types do not fit
		}
		counted, err := newProgram(checked, patterns)
		plain, plainErr := newReadProgram(checked)
		if err != nil || plainErr != nil { // a constant fails
			if fmt.Sprint(err) != fmt.Sprint(plainErr) {
				rt.Fatalf("%s: %v, uncounted %v", source, err, plainErr)
			}
			return
		}
		got, _, gotErr := counted.Eval(newRun().Scope())
		want, _, wantErr := plain.Eval(newRun().Scope())
		if gotErr != nil || wantErr != nil {
			failed++
			// A regular expression that is spelled out has no place in the errors of the library's own calls.
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				rt.Fatalf("%s: %v, uncounted %v", source, gotErr, wantErr)
			}
			return
		}
		gave++
		limit, same := room(MaxBytes), room(MaxBytes)
		a, errA := toNative(got, &limit)
		b, errB := toNative(want, &same)
		if !reflect.DeepEqual(a, b) || fmt.Sprint(errA) != fmt.Sprint(errB) {
			rt.Fatalf("%s gives %v (%v), uncounted %v (%v)", source, a, errA, b, errB)
		}
	})
	if failed == 0 || gave == 0 {
		t.Errorf("%d expressions gave a value, and %d failed; want some of each", gave, failed)
	}
}

// What a library adds is counted unless somebody has seen that it takes as long as its cost says.
func TestEveryFunctionOfALibraryIsCountedOrKnownToBeLinear(t *testing.T) {
	language, err := cel.NewEnv(cel.OptionalTypes())
	errtest.ExpectNone(t, err)
	for name := range baseEnvironment().Functions() {
		if isCounted(name) == (isLinear[name] || language.HasFunction(name) && !slices.Contains([]string{"_==_", "_!=_", "@in", "matches"}, name)) {
			t.Errorf("%s is counted: %t", name, isCounted(name))
		}
	}
}

// cel-go counts these calls when they are over, which takes minutes or more memory than there is.
func TestACallThatWouldTakeLongIsNotMade(t *testing.T) {
	for name, variables := range map[string][]string{
		"a text in place of each character": {"params.text.replace('', params.text)"},
		"a text between many others":        {"params.text.split('').join(params.text)"},
		"many times one text":               {"lists.range(1000).map(i, params.text).join()"},
		"a text formatted many times":       {"'%s'.format([lists.range(1000).map(i, params.text)])"},
		"a list of lists, doubled":          doubled("[x, x]", "x == x"),
		"a list of lists that is in one":    doubled("[x, x]", "x in [x]"),
		"a list of lists made flat":         doubled("[x, x]", "dyn(x).flatten(60)"),
		"a doubled list, compared":          doubled("x + x", "sets.contains(x, x)"),
		"a doubled list, reversed":          doubled("x + x", "x.reverse()"),
		"a doubled list, looked through":    doubled("x + x", "x.distinct()"),
		"a doubled list, gone over":         doubled("x + x", "x.map(i, i)"),
		"a doubled list, joined":            doubled("x + x", "x.map(i, 'a').join()"),
		"a text searched for another":       {"params.text.indexOf(params.text.substring(1) + 'b')"},
		"a regular expression":              {"params.text.matches('(.{0,99}x){9}y')"},
		"a long range":                      {"lists.range(1000000000)"},
	} {
		e, newRun := sample(t)
		for i, source := range variables {
			e.Declare(fmt.Sprintf("v%d", i), e.Compile(source, Place{}))
		}
		run := newRun()
		run.params = e.Names().Run(t.Context(), &Budget{}, nil, nil, map[string]any{"text": strings.Repeat("a", 200_000)}).params
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := e.Names().Variable(fmt.Sprintf("v%d", len(variables)-1)).Value(run.Scope())
		runtime.ReadMemStats(&after)
		var failed *Error
		if !errors.As(err, &failed) || !failed.TooExpensive && name != "a long range" {
			t.Errorf("%s: %v", name, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 100 {
			t.Errorf("%s: makes %d MiB", name, made)
		}
	}
}

// doubled are variables in which a list grows as an expression says, and one that does something with the last.
func doubled(grow, last string) []string {
	all := []string{"dyn(['a', 'b'])"}
	next := func(expression string) string {
		return strings.ReplaceAll(expression, "x", fmt.Sprintf("variables.v%d", len(all)-1))
	}
	for range 50 {
		all = append(all, next(grow))
	}
	return append(all, next(last))
}

// Naming a value never changes its meaning.
func TestAVariableThatHoldsAnOptionalIsReadAsWrittenOut(t *testing.T) {
	for _, c := range [][2]string{
		{"pod.spec.containers[?0]", ".?ports[?0].?containerPort.orValue(-1)"},
		{"pod.spec.containers[?0]", ".?name.orValue('NONE')"},
		{"pod.spec.containers[?0]", ".hasValue()"},
		{"pod.spec.containers[?7]", ".?name.orValue('NONE')"},
		{"pod.spec.containers.filter(c, c.name == 'x')[?0]", ".?ports.orValue([]).size()"},
		{"pod.spec.containers.first()", ".?name.orValue('NONE')"},
		{"pod.spec.?containers", "[0].name.orValue('NONE')"},
		{"pod.metadata.?labels", "[?'a'].orValue('NONE')"},
		{"pod.metadata.?labels", ".a.orValue('NONE')"},
		{"pod.metadata.?labels", ".?b.hasValue()"},
		{"dyn(pod.metadata.?labels)", ".?a.orValue('NONE')"},
		{"params.port > 1 ? dyn(pod.?spec) : dyn(1)", ".?containers.hasValue()"},
		{"pod.metadata.labels", ".?a.orValue('NONE')"},
		{"params.?absent", ".orValue('NONE')"},
	} {
		e, newRun := sample(t)
		named := e.Compile(c[0], Place{})
		e.Declare("named", named)
		e.Declare("again", e.Compile("variables.named", Place{}))
		want, err := e.Compile("("+c[0]+")"+c[1], Place{}).Value(newRun().Scope())
		if err != nil {
			t.Errorf("%s%s: %v", c[0], c[1], err)
		}
		for _, name := range []string{"variables.named", "variables.again"} {
			if got, err := e.Compile(name+c[1], Place{}).Value(newRun().Scope()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s%s gives %v (%v), and written out, as %s, %v", name, c[1], got, err, c[0], want)
			}
		}
	}
}

// sample is an environment with parameters of all kinds, and a run in it.
func sample(t *testing.T) (*Environment, func() *Run) {
	t.Helper()
	items := &v1alpha1.Items{Type: "string"}
	e, err := NewEnvironment(Template{
		Parameters: []v1alpha1.Parameter{
			{Name: "port", Type: "integer"}, {Name: "text", Type: "string"}, {Name: "list", Type: "list", Items: items},
			{Name: "map", Type: "map", Items: items}, {Name: "any", Type: "json"}, {Name: "absent", Type: "string"},
		},
		Values:   map[string]any{"region": "eu"},
		Patterns: &param.Patterns{},
		Problem:  func(_ Place, message string) { t.Fatal(message) },
		Warn:     func(Place, string) {},
	})
	errtest.ExpectNone(t, err)
	e.Declare("greeting", e.Compile("'hello ' + params.text", Place{}))
	e.Declare("broken", e.Compile("string(1 / (params.port - params.port))", Place{}))
	pod, err := rawjson.Decode([]byte(`{"metadata":{"name":"p","labels":{"b":"2","a":"1","c":"3"}},"spec":{"containers":[{"name":"x","ports":[{"containerPort":8080}]},{"name":"y"}]}}`))
	errtest.ExpectNone(t, err)
	params := map[string]any{
		"port": int64(8080), "text": "a-b-c 127.0.0.1", "list": []any{"x", "y", "x"}, "map": map[string]any{"k": "v", "a": "b"}, "any": map[string]any{"deep": []any{true}},
	}
	namespace := map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]string{"team": "shop"}, "annotations": map[string]string{}}}
	return e, func() *Run {
		return e.Names().Run(t.Context(), &Budget{}, pod.(map[string]any), namespace, params)
	}
}
