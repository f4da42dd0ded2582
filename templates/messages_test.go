package templates

import (
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/internal/tabletest"
)

// A message about what is not there, or is of another kind, has the author's expression in the
// form that works. The form works: it is compiled and rendered in the place of the wrong one.
func TestAMessageShowsTheFormThatWorks(t *testing.T) {
	const parameters = "parameters: [{name: list, type: list, items: string, default: [a, b]}, {name: map, type: map, items: string, default: {a: b}}, {name: text, type: string, default: x}, {name: any, type: json, default: [1]}]\n"
	for _, c := range tabletest.Rows(t, "testdata/tables/forms.txt") {
		message, form, _ := strings.Cut(c.Want(), " || ")
		form, fails := strings.CutSuffix(form, "(fails)")
		form = strings.TrimSpace(form)
		_, _, err := Compile(manifestOf(parameters+c.Input), Options{})
		var broken *CompileError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), form) {
			t.Errorf("%s:\n got %v\nwant %s; %s", c.Name, err, message, form)
			continue
		}
		_, form, _ = strings.Cut(form, "write ")
		form, _, _ = strings.Cut(form, " or ${")
		form = strings.TrimSuffix(strings.TrimPrefix(form, "${"), "}")
		if fails || strings.HasPrefix(form, "[\"") {
			continue
		}
		if _, _, err := Compile(manifestOf(parameters+strings.Replace(c.Input, c.Name, form, 1)), Options{}); err != nil {
			t.Errorf("%s: the form %s does not work: %v", c.Name, form, err)
		}
	}
}

func TestAListAmongArgumentsStandsForItsItems(t *testing.T) {
	tmpl := compiled(t, `parameters:
- {name: extra, type: list, items: string}
- {name: text, type: string, default: "a,b c"}
- {name: one, type: list, items: string, default: ["a b"]}
- {name: ids, type: list, items: integer, default: [3, 1]}
inject:
  spec:
    securityContext: {supplementalGroups: ["${params.ids}", 7]}
    containers:
    - name: s
      image: s
      args: ["--a", "${params.?extra}", "${params.text}", "${params.one}", "${pod.spec.containers[0].?args.orValue([])}", "x${params.text}", "${params.ids}", "--z"]
      command: ["${[]}"]`)
	want := func(extra string) string {
		return `{"spec":{"securityContext":{"supplementalGroups":[3,1,7]},"containers":[{"name":"s","image":"s","args":["--a",` + extra + `"a,b c","a b","xa,b c","3","1","--z"]}]}}`
	}
	wantFragment(t, rendered(t, tmpl, Input{Pod: onePod(t, nil)}).Fragment, want(""))
	wantFragment(t, rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/extra": ""})}).Fragment, want(""))
	wantFragment(t, rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/extra": "$(X),${x}"})}).Fragment, want(`"$(X)","${x}",`))
}

// An expression with a mistake is one problem, whatever the checker says of it and however many pods
// the template is rendered for.
func TestAnExpressionWithAMistakeIsOneProblem(t *testing.T) {
	const annotations = `- {name: a, expression: "pod.?metadata.?annotations.orValue({}).transformMapEntry(k, v, k.startsWith('x/'), {k.substring(2): v})"}`
	wrap := func(variable string) string {
		return "variables:\n" + annotations + "\n- {name: list, expression: \"" + variable + "\"}\n" +
			"inject: {spec: {initContainers: [{name: s, image: \"busybox:1.36\", restartPolicy: Always, env: [{$for: \"e in variables.list\", name: \"${e[0]}\", value: \"${e[1]}\"}]}]}}"
	}
	mixed := "[['A', variables.a[?'a'].orValue('1')], ['B', variables.a[?'b'].orValue('2')], ['C', variables.a[?'c'].orValue('3')], ['D', 'd']]"
	name := func(expr string) string {
		return "os: [linux, windows]\ninject: {spec: {nodeName: \"${" + expr + "}\"}}"
	}
	for _, c := range []struct{ spec, says string }{
		{wrap(mixed), "expected type 'string' but found 'dyn'; write string(variables.a[?'a'].orValue('1')), and the same at 2 more places"},
		{wrap("[['A', 1], ['B', '2']]"), "expected type 'string' but found 'int'; write string(1)"},
		{wrap("[['A', ['b']]]"), "for a map or list of mixed types wrap its values in dyn()"},
		{wrap("[[variables.a['x'], 'b']]"), "expected type 'dyn' but found 'string'; write dyn('b')"},
		{name("pod.spec.nodeNam + pod.spec.hostnam"), "pod.spec has no field nodeNam; did you mean nodeName?"},
		{name("nodeName + hostname"), "undeclared reference to 'nodeName'; there are namespaceObject, params, pod, values, variables"},
		{name("pod.spec.containers[7].name"), "fails for a minimal pod: index out of bounds: 7"},
	} {
		_, _, err := Compile(manifestOf(c.spec), Options{})
		var broken *CompileError
		if !errors.As(err, &broken) || len(broken.Problems) != 1 || !strings.HasSuffix(broken.Problems[0].Message, c.says) && !strings.Contains(broken.Problems[0].Message, c.says+", in the") {
			t.Errorf("%s:\n got %v\nwant %s", c.spec, err, c.says)
		} else if n := strings.Count(broken.Problems[0].Message, "in the expression"); n != 1 {
			t.Errorf("%s: %d places in %v", c.spec, n, err)
		}
	}
	for _, key := range []string{"a", "b", "c"} {
		mixed = strings.Replace(mixed, "variables.a[?'"+key+"']", "string(variables.a[?'"+key+"']", 1)
	}
	if _, _, err := Compile(manifestOf(wrap(strings.ReplaceAll(mixed, "')]", "'))]"))), Options{}); err != nil {
		t.Errorf("the repair does not work: %v", err)
	}
}
