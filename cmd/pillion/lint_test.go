package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const mistakes = "../../lint/testdata/mistakes/"

func TestLintsExitCodeIsForAStepOfAPipeline(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{mistakes + "good.yaml"}, exitDone},
		{[]string{mistakes + "good.yaml", "--strict"}, exitDone},
		{[]string{mistakes + "image-tag.yaml"}, exitDone},
		{[]string{mistakes + "image-tag.yaml", "--strict"}, exitError},
		{[]string{mistakes + "compile-field.yaml"}, exitError},
		{[]string{mistakes}, exitError},
		{[]string{mistakes + "none.yaml"}, exitError},
	} {
		if code, out, errs := call(t, "", nil, append([]string{"lint"}, c.args...)...); code != c.want {
			t.Errorf("%q: exit %d, want %d\n%s%s", c.args, code, c.want, out, errs)
		}
	}
}

func TestLintWritesJSONForAMachine(t *testing.T) {
	code, out, errs := call(t, "", nil, "lint", "-o", "json", mistakes+"image-tag.yaml", mistakes+"compile-field.yaml")
	var report struct {
		Errors, Warnings int
		Templates        []struct {
			Source, Template, Hash string
			OK                     bool
			Findings               []struct {
				Severity, Rule, Path, Message string
				Line                          int
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitError {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
	}
	if report.Errors != 1 || report.Warnings != 1 || len(report.Templates) != 2 {
		t.Fatalf("report\n%s", out)
	}
	tag, field := report.Templates[0], report.Templates[1]
	if !tag.OK || tag.Template != "image-tag" || len(tag.Hash) != 16 || field.OK || field.Hash != "" {
		t.Errorf("report\n%s", out)
	}
	if f := field.Findings[0]; f.Severity != "error" || f.Rule != "compile" || f.Path != "spec.ordr" || f.Line != 6 || !strings.Contains(f.Message, "did you mean order?") {
		t.Errorf("finding %+v", f)
	}
}

// A template that no bundled pod gets was tried where a pod of its own cases gets it: --strict has
// nothing to warn of. A case in which it is not injected tries nothing.
func TestATemplateWhoseCasesPassWasTried(t *testing.T) {
	manifest, err := os.ReadFile(mistakes + "untried.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("Allways", "Always", "com/audit", "com/audit:1\n        resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {memory: 1Mi}}").Replace(string(manifest))
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, annotations: {pillion.dev/inject: untried}}\nspec: {containers: [{name: web, image: 'w:1'}], volumes: [{name: data, emptyDir: {}}]}\n"
	for name, c := range map[string]struct {
		pod, flag, says, not string
		code                 int
	}{
		"a case that gets it":         {pod, "--test", "template untried: ok (hash ", "untried]", exitDone},
		"a case that does not get it": {strings.Replace(pod, "name: data", "name: other", 1), "--test", "not tried: 1", "template untried: ok", exitError},
		"cases that are not run":      {pod, "--strict", "not tried: 1", "template untried: ok", exitError},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, fstest.MapFS{"t.yaml": {Data: []byte(text)}, "testdata/untried/one/pod.yaml": {Data: []byte(c.pod)}}); err != nil {
			t.Fatal(err)
		}
		call(t, "", nil, "lint", dir, "--update") // writes what the case wants
		code, out, errs := call(t, "", nil, "lint", dir, "--strict", c.flag)
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, c.not) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
}

// What helm upgrade, or the guard after it, would say of a file of values, lint says before.
func TestLintTakesTheFileOfValuesThatHelmTakes(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"library: [fluent-bit]\nparameterDefaults:\n  fluent-bit:\n    memory: 64MB\n", `values.yaml:4: template fluent-bit: parameterDefaults.fluent-bit.memory: must be a quantity such as 64Mi or 100m`},
		{"library: [fluent-bit]\nparameterDefaults:\n  fluent-bit: {memroy: 64Mi}\n", `values.yaml:3: parameterDefaults.fluent-bit.memroy: the template has no such parameter; did you mean memory? [values]`},
		{"library:\n- fluent-bit\n- fluentbit\n", `values.yaml:3: library[1]: there is no template "fluentbit"; did you mean fluent-bit? [values]`},
		{"parameterDefaults:\n  fluent-bit: {memory: 64Mi}\n", `values.yaml:2: parameterDefaults.fluent-bit: neither library nor templates has a template of this name`},
		{"templates:\n  own:\n    ordr: 1\n    inject: {metadata: {labels: {a: b}}}\n", `values.yaml:2: template own: templates.own: spec.ordr: unknown field; did you mean order? [compile]`},
		{"library: fluent-bit\n", `values.yaml:1: library: must be a list of names, such as [fluent-bit] [values]`},
		{"library: [fluent-bit]\ntemplateValue: {cluster: a}\n", `values.yaml:2: templateValue: the chart has no such value; did you mean templateValues? [values]`},
		{"image:\n  repositry: a\n", `values.yaml:2: image.repositry: the chart has no such value; did you mean repository? [values]`},
		{"templates: [own]\n", `values.yaml:1: templates: must be an object; got a list [values]`},
		{"library: [fluent-bit]\ntemplates:\n  fluent-bit: {inject: {metadata: {labels: {a: b}}}}\n", `values.yaml:3: templates.fluent-bit: library names a template of this name`},
		{"templates:\n  own:\n    suspend: true\n    inject: {metadata: {labels: {a: b}}}\n", `templates.own: the chart never renders spec.suspend`},
		{"library: [fluent-bit, vault-agent]\nglobal: {imageRegistry: registry.example.com, imagePullSecrets: [{name: pull}]}\nparameterDefaults:\n  fluent-bit: {memory: 96Mi}\ntemplateValues: {cluster: a}\ntemplates:\n  own:\n    inject: {metadata: {labels: {a: '${values.cluster}'}}}\n", ""},
	} {
		code, out, errs := call(t, "", map[string]string{"values.yaml": c.values}, "lint", "-f", "DIR/values.yaml")
		if (code == exitError) != (c.want != "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d\n%s%s\nwant %s", c.values, code, out, errs, c.want)
		}
	}
	if code, out, errs := call(t, "", nil, "lint", "-f", "../../examples/values.yaml"); code != exitDone {
		t.Errorf("the example: exit %d\n%s%s", code, out, errs)
	}
}
