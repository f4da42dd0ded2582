package templates

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/internal/tabletest"
)

func TestTextInWhichAValueCanMeanMoreIsFound(t *testing.T) {
	for _, c := range tabletest.Rows(t, "testdata/tables/hazards.txt") {
		tmpl := compiled(t, "parameters: [{name: x, type: string, default: a}]\nvariables:\n- {name: v, expression: toJson(params.x)}\n- {name: q, expression: shellQuote(params.x)}\ninject:\n  spec:\n    "+c.Input)
		var got []string
		for _, w := range tmpl.TextHazards() {
			got = append(got, w.Message)
		}
		if c.Want() == "" && len(got) > 0 || c.Want() != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.Want())) {
			t.Errorf("%s: %q; want %q", c.Name, got, c.Want())
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
