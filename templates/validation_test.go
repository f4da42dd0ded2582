package templates

import (
	"strings"
	"testing"
)

func TestValidationsSayWhichAreFalseAndWhy(t *testing.T) {
	tmpl := compiled(t, `
parameters: [{name: container, type: string, default: web}]
validations:
- {name: holds, expression: "true", message: never said}
- {name: text, expression: "!pod.spec.?hostNetwork.orValue(false)", message: leave hostNetwork out}
- {name: computed, expression: "pod.spec.containers.exists(c, c.name == params.container)", messageExpression: "'no container ' + params.container", message: some container is missing}
- {name: fails, expression: "!pod.spec.?hostNetwork.orValue(false)", messageExpression: "pod.spec.hostname", message: the other message}
- {name: bare, expression: "!pod.spec.?hostNetwork.orValue(false)"}
inject: {metadata: {labels: {a: b}}}`)
	pod := onePod(t, map[string]string{"t.pillion.dev/container": "gone"})
	pod["spec"].(map[string]any)["hostNetwork"] = true
	var got []string
	for _, v := range rendered(t, tmpl, Input{Pod: pod}).Invalid {
		got = append(got, v.Name+": "+v.Message)
	}
	want := []string{"text: leave hostNetwork out", "computed: no container gone", "fails: the other message",
		`bare: its validation "bare" is false for this pod: !pod.spec.?hostNetwork.orValue(false)`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
