package templates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/templates"
)

const withDefaults = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
spec:
  parameters:
  - {name: image, type: image, default: "example/side:1", setBy: []}
  - {name: size, type: integer, default: 1, maximum: 8}
  - {name: output, type: map, items: string, default: {name: stdout, port: "1"}}
  - {name: ports, type: list, items: integer}
  - {name: owner, type: string, required: true, setBy: []}
  inject:
    metadata:
      annotations: {all: "${params.image} ${params.size} ${toJson(params.output)} ${toJson(params.?ports.orValue([]))} ${params.owner}"}
`

// all compiles withDefaults with the installer's values and returns what a pod
// without any annotations gets, or why it does not compile.
func all(t *testing.T, values string, annotations map[string]string) (string, error) {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	tmpl, _, err := templates.Compile([]byte(withDefaults), templates.Options{Values: v})
	if err != nil {
		return "", err
	}
	r, err := tmpl.Render(t.Context(), templates.Input{Pod: map[string]any{}, Namespace: templates.Namespace{Name: "shop", Annotations: annotations}})
	if err != nil {
		return "", err
	}
	return r.Fragment.Field("metadata", "annotations", "all").Value.(string), nil
}

func TestTheInstallersDefaultsStandBelowAnnotationsAndAboveTheManifest(t *testing.T) {
	values := `{"defaults": {"other": {"image": 3}, "side": {"image": "mirror.example.com/side:2", "size": 4, "output": {"name": "forward", "host": "h"}, "ports": [1, 2], "owner": "admin"}}}`
	for _, test := range []struct {
		annotations map[string]string
		want        string
	}{
		{nil, `mirror.example.com/side:2 4 {"host":"h","name":"forward","port":"1"} [1,2] admin`},
		{
			map[string]string{"side.pillion.dev/size": "2", "side.pillion.dev/output.host": "mine"},
			`mirror.example.com/side:2 2 {"host":"mine","name":"forward","port":"1"} [1,2] admin`,
		},
	} {
		got, err := all(t, values, test.annotations)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("with %v (-want +got):\n%s", test.annotations, diff)
		}
	}
	if _, err := all(t, values, map[string]string{"side.pillion.dev/image": "mine"}); err == nil {
		t.Error("a default of the installer lets a namespace set what nobody may set")
	}
}

func TestAnInstallersDefaultThatBreaksItsConstraintMakesTheTemplateBad(t *testing.T) {
	for own, want := range map[string]string{
		`{"owner": "a", "size": 9}`:               "spec.parameters[1].default: the installer's values.defaults.side.size: must be a whole number, at most 8; got \"9\"",
		`{"owner": "a", "image": "Not An Image"}`: "the installer's values.defaults.side.image: must be an image",
		`{"owner": "a", "sise": 2}`:               "the installer's values.defaults.side.sise: the template has no such parameter; did you mean size?",
		`{"owner": "a", "output": "x"}`:           "the installer's values.defaults.side.output: must be an object",
		`3`:                                       "the installer's values.defaults.side must be an object, not a number",
		`{}`:                                      "nobody may set this required parameter, and it has no default",
	} {
		if _, err := all(t, `{"defaults": {"side": `+own+`}}`, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: error\n%v\nwant one with\n%s", own, err, want)
		}
	}
	if _, err := all(t, `{"defaults": "x"}`, nil); err == nil || !strings.Contains(err.Error(), "the installer's values.defaults must be an object, not text") {
		t.Errorf("error %v", err)
	}
}

func TestTheInstallersDefaultsShowInParametersAndInTheHash(t *testing.T) {
	compiled := func(size int) *templates.Template {
		tmpl, _, err := templates.Compile([]byte(withDefaults), templates.Options{Values: map[string]any{"defaults": map[string]any{"side": map[string]any{"owner": "a", "size": size}}}})
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	three, four := compiled(3), compiled(4)
	if got := string(three.Parameters()[1].Default); got != "3" {
		t.Errorf("the default is %s", got)
	}
	if three.Hash() == four.Hash() {
		t.Error("the hash does not tell two defaults apart")
	}
}
