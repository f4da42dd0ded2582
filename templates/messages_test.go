package templates

import (
	"errors"
	"strings"
	"testing"
)

// A message about what is not there, or is of another kind, has the author's expression in the
// form that works. The form works: it is compiled and rendered in the place of the wrong one.
func TestAMessageShowsTheFormThatWorks(t *testing.T) {
	const parameters = "parameters: [{name: list, type: list, items: string, default: [a, b]}, {name: map, type: map, items: string, default: {a: b}}, {name: text, type: string, default: x}, {name: any, type: json, default: [1]}]\n"
	inName := func(expr string) string { return "inject: {spec: {nodeName: \"${" + expr + "}\"}}" }
	inArgs := func(expr string) string {
		return "inject: {spec: {containers: [{name: s, image: s, args: [\"${" + expr + "}\"]}]}}"
	}
	for _, c := range []struct {
		spec      func(string) string
		expr      string
		message   string
		form      string
		formFails bool
	}{
		{inName, "pod.metadata.annotations['example.com/x']", "no such key: annotations", "not every pod has it: write pod.metadata.?annotations[?'example.com/x'].orValue('')", false},
		{inName, "pod.metadata.labels.app", "no such key: labels", "write pod.metadata.?labels.?app.orValue('')", false},
		{inName, "pod.metadata.?labels.orValue({})['app']", "no such key: app", "write pod.metadata.?labels.orValue({})[?'app'].orValue('')", false},
		{inName, "pod.spec.securityContext.runAsUser == 1 ? pod.metadata.labels.app : 'x'", "no such key: securityContext", "write pod.spec.?securityContext.?runAsUser.orValue(0)", true},
		{inName, "has(pod.metadata.labels) ? pod.metadata.labels.tier : 'x'", "no such key: tier", "write pod.metadata.?labels.?tier.orValue('')", false},
		{inName, "pod.spec.containers[0].name == 'none' ? 'x' : pod.metadata.name", "no such key: name", "write pod.metadata.?name.orValue('')", true},
		{inName, "has(pod.metadata.labels) ? pod.metadata.labels.tier : pod.metadata.annotations.tier", "no such key", "", true},
		{inName, "pod.metadata.name", "no such key: name", "write pod.metadata.?name.orValue('')", false},
		{inName, "pod.spec.containers[0].env[0].name", "no such key: env", "write pod.spec.containers[0].?env[?0].?name.orValue('')", false},
		{inName, "pod.spec.containers[7].name", "index out of bounds: 7", "write pod.spec.containers[?7].?name.orValue('')", false},
		{inName, "pod.spec.containers.map(c, c.env.size())[0]", "no such key: env", "write c.?env.orValue([])", true},
		{inName, "pod.spec.containers.exists(c, c.env.exists(e, e.name == 'A')) ? 'a' : 'b'", "no such key: env", "write c.?env.orValue([])", true},
		{inName, "pod.spec.containers.exists(c, c.env.exists(c, c.name == 'A')) ? 'a' : 'b'", "no such key: env", "write c.?env.orValue([])", true},
		{inName, "pod.spec.containers[0].resources.limits.size()", "no such key: resources", "write pod.spec.containers[0].?resources.?limits.orValue({})", true},
		{inName, "pod.spec.hostNetwork ? 'a' : 'b'", "no such key: hostNetwork", "write pod.spec.?hostNetwork.orValue(false)", true},
		{inName, "has(pod.spec.securityContext.runAsUser) ? 'a' : 'b'", "no such key: securityContext", "write pod.spec.?securityContext.?runAsUser.hasValue()", true},
		{inName, "params.map['none']", "no such key: none", "it is not always there: write params.map[?'none'].orValue('')", false},
		{inName, "params.map[params.text]", "no such key: x", "write params.map[?params.text].orValue('')", false},
		{inName, "params.list", "must give text", "write ${params.list.join(',')} or ${toJson(params.list)}", false},
		{inName, "params.list + ['c']", "must give text", "write ${(params.list + ['c']).join(',')}", false},
		{inName, "params.map", "must give text", "write ${toJson(params.map)}", false},
		{inName, "params.any", "gives a list; it must be text", "write ${params.any.join(',')} or ${toJson(params.any)}", true},
		{inName, "a-${params.list}", "inside a text", "write ${params.list.join(',')}", false},
		{inArgs, "params.map", "must give text", "write ${toJson(params.map)}", false},
		{inArgs, "[params.map]", "must give text", "", true},
		{inArgs, "[dyn(params.map)]", "in item 0: gives an object; it must be text", "write ${([dyn(params.map)]).map(x, toJson(x))}", false},
		{func(e string) string {
			return "inject: {spec: {containers: [{name: s, image: s, args: \"${" + e + "}\"}]}}"
		}, "params.text", "must give a list", `for a list of one write ["${params.text}"], for its parts ${params.text.split(',')}`, false},
		{func(e string) string { return "inject: {spec: {priority: \"${" + e + "}\"}}" }, "params.text", "must give a whole number", "write ${int(params.text)}", true},
		{func(e string) string { return "inject: {spec: {hostNetwork: \"${" + e + "}\"}}" }, "params.text", "must give true or false", "write ${params.text == 'true'}", false},
		{func(string) string {
			return "inject: {spec: {containers: [{name: s, image: s, args: [--level: debug]}]}}"
		}, "", "must be text; got an object", `for the text quote all of it: "--level: debug"`, true},
		{func(string) string { return "inject: {spec: {nodeName: [a, b]}}" }, "", "must be text; got a list", `for one text write "a,b"`, true},
	} {
		spec := c.spec(c.expr)
		if strings.HasPrefix(c.expr, "a-$") {
			spec = strings.Replace(spec, "${a-", "a-", 1)
			spec = strings.Replace(spec, "}}", "}", 1)
		}
		_, _, err := Compile(manifestOf(parameters+spec), Options{})
		var broken *CompileError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), c.form) {
			t.Errorf("%s:\n got %v\nwant %s; %s", c.expr, err, c.message, c.form)
			continue
		}
		if c.formFails {
			continue
		}
		_, form, _ := strings.Cut(c.form, "write ")
		form, _, _ = strings.Cut(form, " or ${")
		form, _, _ = strings.Cut(form, ", for its")
		form = strings.TrimSuffix(strings.TrimPrefix(form, "${"), "}")
		if strings.HasPrefix(form, "[\"") {
			continue
		}
		if _, _, err := Compile(manifestOf(parameters+c.spec(form)), Options{}); err != nil {
			t.Errorf("%s: the form %s does not work: %v", c.expr, form, err)
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
