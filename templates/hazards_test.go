package templates

import (
	"fmt"
	"strings"
	"testing"
)

func TestTextInWhichAValueCanMeanMoreIsFound(t *testing.T) {
	const (
		script = "params.x is inside a shell script"
		config = "params.x is inside the text of a configuration"
		quoted = "shellQuote is inside quotes"
	)
	for what, c := range map[string]struct{ inject, want string }{
		"a script":                       {`containers: [{name: s, image: i, command: [sh, -c, "echo ${params.x}"]}]`, script},
		"its arguments":                  {`containers: [{name: s, image: i, command: [/bin/bash, -ec], args: ["echo ${params.x}"]}]`, script},
		"no shell":                       {`containers: [{name: s, image: i, command: [echo, "a ${params.x}"]}]`, ""},
		"quoted":                         {`containers: [{name: s, image: i, command: [sh, -c, "echo ${shellQuote(params.x)}"]}]`, ""},
		"quoted by JSON, which runs $()": {`containers: [{name: s, image: i, command: [sh, -c, "echo ${toJson(params.x)}"]}]`, script},
		"quoted between quotes":          {`containers: [{name: s, image: i, command: [sh, -c, 'echo "${shellQuote(params.x)}"']}]`, quoted},
		"quoted after quotes":            {`containers: [{name: s, image: i, command: [sh, -c, 'echo \" "it''s ${shellQuote(params.x)}"']}]`, quoted},
		"quoted after closed quotes":     {`containers: [{name: s, image: i, command: [sh, -c, 'echo "it''s" \"\" ${shellQuote(params.x)}']}]`, ""},
		"one of two":                     {`containers: [{name: s, image: i, command: [sh, -c, "echo ${shellQuote(params.x) + params.x}"]}]`, script},
		"a list by one expression":       {`containers: [{name: s, image: i, command: "${['sh', '-c', 'echo ' + params.x]}"}]`, script},
		"such a list, quoted":            {`containers: [{name: s, image: i, command: "${['sh', '-c', 'echo ' + shellQuote(params.x)]}"}]`, ""},
		"such a list without a shell":    {`containers: [{name: s, image: i, command: "${['echo', params.x]}"}]`, ""},
		"a configuration":                {"containers: [{name: s, image: i, env: [{name: C, value: \"a: 1\\nb: ${params.x}\\n\"}]}]", config},
		"a configuration of JSON":        {"containers: [{name: s, image: i, env: [{name: C, value: \"{\\\"b\\\": ${toJson(params.x)}}\"}]}]", ""},
		"a plain value":                  {"containers: [{name: s, image: i, env: [{name: C, value: \"b ${params.x}\"}]}]", ""},
		"by a variable":                  {`containers: [{name: s, image: i, command: [sh, -c, "echo ${variables.v}"]}]`, "variables.v is inside a shell script"},
		"in front of PATH":               {"containers: [{$each: App, env: [{name: PATH, $prepend: ':', value: /agent}]}]", "joins a text to PATH"},
		"behind PATH":                    {"containers: [{$each: App, env: [{name: PATH, $append: ':', value: /agent}]}]", "joins a text to PATH"},
		"all of PATH":                    {"containers: [{$each: App, env: [{name: PATH, value: '/agent:/bin'}]}]", ""},
		"in front of another variable":   {"containers: [{$each: App, env: [{name: LD_LIBRARY_PATH, $prepend: ':', value: /agent}]}]", ""},
		"by a variable that quotes":      {`containers: [{name: s, image: i, command: [sh, -c, "echo ${variables.q}"]}]`, ""},
	} {
		tmpl := compiled(t, "parameters: [{name: x, type: string, default: a}]\nvariables:\n- {name: v, expression: toJson(params.x)}\n- {name: q, expression: shellQuote(params.x)}\ninject:\n  spec:\n    "+c.inject)
		var got []string
		for _, w := range tmpl.TextHazards() {
			got = append(got, w.Message)
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q; want %q", what, got, c.want)
		}
	}
}

// Who may write a template has it judged by the guard: to go over each way to a variable would never end.
func TestVariablesThatReadEachOtherAreJudgedSoon(t *testing.T) {
	spec := "parameters: [{name: x, type: integer, default: 1}]\nvariables:\n- {name: v0, expression: string(params.x)}\n- {name: v1, expression: string(params.x)}\n"
	for i := 2; i < 80; i++ {
		spec += fmt.Sprintf("- {name: v%d, expression: 'false ? variables.v%d : variables.v%d'}\n", i, i-1, i-2)
	}
	tmpl := compiled(t, spec+"inject: {spec: {containers: [{name: s, image: i, command: [sh, -c, 'echo ${variables.v79}']}]}}")
	if got := tmpl.TextHazards(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// The place of the message is that of the expression whose value is inserted.
func TestOnlyWhatIsInsertedIsAHazard(t *testing.T) {
	const spec = `parameters: [{name: mode, type: string, default: a}, {name: text, type: string, default: b}, {name: level, type: string, enum: [a], default: a}, {name: any, type: json, default: 1}]
files:
  a.conf: |
    one = ${params.mode == "a" ? "1" : "2"}
    two = ${EXPR}
    three = ${params.text.size()}
inject: {spec: {initContainers: [{name: s, image: "busybox:1.36", restartPolicy: Always, command: [a], volumeMounts: [{name: t-files, mountPath: /c}]}]}}`
	for expr, want := range map[string]string{
		`params.mode == "a" ? params.text : ""`:                "params.text",
		`params.text + params.mode`:                            "params.mode params.text",
		`params.text in ["x"] && params.mode.contains("y")`:    "",
		`string(params.text.size()) + params.level`:            "",
		`["a", params.text].filter(t, t == params.mode)[0]`:    "params.text",
		`toJson(params.any) + string(params.mode.matches(""))`: "",
		`string(params.any)`:                                   "params.any",
	} {
		tmpl := compiled(t, strings.Replace(spec, "EXPR", expr, 1))
		got := tmpl.TextHazards()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(want, strings.Fields(got[0].Message)[0]) || got[0].Path != `spec.files["a.conf"]`) {
			t.Errorf("%s: %v; want %q", expr, got, want)
		}
	}
}
