package templates

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/internal/tabletest"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// everywhere has one parameter in every place where text can be: a whole value,
// a part of one, a key, a list, a map, a file, and values that expressions make.
const everywhere = `
parameters:
- {name: text, type: string, default: x}
- {name: part, type: string, default: x}
- {name: items, type: list, items: string, default: [a, b]}
- {name: list, type: list, items: string}
- {name: map, type: map, items: string}
- {name: json, type: json, default: {a: x}}
variables:
- {name: copy, expression: "params.text + params.part"}
- {name: own, expression: "container.name + params.text"}
files: {a: "<${params.text}>\n", b: "${params.part}"}
inject:
  metadata:
    labels: {whole: "${params.text}"}
    annotations:
      part: "<${params.part}>"
      variable: ${variables.copy}
      json: ${toJson(params.json)}
      map: ${params.map.?key.orValue('none')}
      quoted: echo ${shellQuote(params.text)}
      ${'key-' + params.part}: value
  spec:
    containers:
    - name: sidecar
      image: sidecar:1
      args: ["--text=${params.text}", "${params.part}", "${params.?list}", "--", "$${literal}"]
      volumeMounts: [{name: t-files, mountPath: /t}]
      command: ${params.items}
      env:
      - {name: TEXT, value: "${params.text}"}
      - {$for: "item in params.items", name: "ITEM_${item}", value: "${item}"}
    - $each: App
      env: [{name: TEXT, value: "${params.text}"}, {name: OWN, value: "${variables.own}"}]
`

// hostile draws text that is likely to mean something to YAML, JSON, CEL, a shell
// or a person.
func hostile(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{
			"", " ", "\n", "${params.text}", "$${x}", "${", "}", "'", `"`, `\`, "`", "true", "null", "1", "1e3", "- a", "a: b", "{a: b}", "[a]", "# c", "|", ">", "&a", "*a", "<<", "---",
			"'); rm -rf /; ('", "$(x)", "a\x00b", "\u2028", "\u202e", "$patch", "<script>", "&amp;", "\x1b[31m", "%s%n", "{{ .Values.x }}", "'''", `"""`, "\\u0041", "\r\n", "\ufeff",
		}),
		rapid.StringMatching(`[${}'"\\\n: #\[\]-]{1,40}`),
	).Draw(t, label)
}

// TestAValueNeverChangesTheFragmentsStructure is the law that templates live by:
// whatever a tenant writes, only the places of that value change, and they hold
// it to the byte.
func TestAValueNeverChangesTheFragmentsStructure(t *testing.T) {
	tmpl := compiled(t, everywhere)
	rapid.Check(t, func(rt *rapid.T) {
		text, part, value, list := hostile(rt, "text"), hostile(rt, "part"), hostile(rt, "value"), hostile(rt, "list")
		annotations := map[string]string{
			"t.pillion.dev/text": text, "t.pillion.dev/part": part, "t.pillion.dev/map.key": value, "t.pillion.dev/list": list,
			"t.pillion.dev/json": asJSON(t, map[string]string{"a": value}),
		}
		got := fragmenttest.Object(rendered(t, tmpl, Input{Pod: onePod(t, annotations)}).Fragment)

		env := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
		quoted, _ := shellWord(text)
		args := []any{"--text=" + text, part}
		if strings.TrimSpace(list) != "" {
			for item := range strings.SplitSeq(list, ",") {
				args = append(args, strings.TrimSpace(item))
			}
		}
		item := func(file string) any {
			return map[string]any{"path": file, "fieldRef": map[string]any{"fieldPath": "metadata.annotations['t.files.pillion.dev/" + file + "']"}}
		}
		want := map[string]any{
			"metadata": map[string]any{
				"labels": map[string]any{"whole": text},
				"annotations": map[string]any{
					"part": "<" + part + ">", "variable": text + part, "map": value, "quoted": "echo " + quoted, "key-" + part: "value",
					"t.files.pillion.dev/a": "<" + text + ">\n", "t.files.pillion.dev/b": part,
					"json": got["metadata"].(map[string]any)["annotations"].(map[string]any)["json"],
				},
			},
			"spec": map[string]any{"containers": []any{
				map[string]any{
					"name": "sidecar", "image": "sidecar:1", "args": append(args, "--", "${literal}"), "command": []any{"a", "b"},
					"volumeMounts": []any{map[string]any{"name": "t-files", "mountPath": "/t"}},
					"env":          []any{env("TEXT", text), env("ITEM_a", "a"), env("ITEM_b", "b")},
				},
				map[string]any{"name": "app", "env": []any{env("TEXT", text), env("OWN", "app"+text)}},
			}, "volumes": []any{map[string]any{"name": "t-files", "downwardAPI": map[string]any{"items": []any{item("a"), item("b")}}}}},
		}
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("got  %q\nwant %q", got, want)
		}
		inner, err := rawjson.Decode([]byte(got["metadata"].(map[string]any)["annotations"].(map[string]any)["json"].(string)))
		if err != nil || !reflect.DeepEqual(inner, raw(t, annotations["t.pillion.dev/json"])) {
			rt.Fatalf("toJson gives %v, %v", inner, err)
		}
	})
}

// shellWord quotes as POSIX has it, written apart from the code under test.
func shellWord(s string) (string, error) {
	word := "'"
	for _, b := range []byte(s) {
		if b == '\'' {
			word += `'\''`
		} else {
			word += string([]byte{b})
		}
	}
	return word + "'", nil
}

// FuzzCompile holds that any bytes are a template or an error with problems, and
// that a template renders or says why not.
//
//fuzz:slow makes a CEL environment and compiles expressions, about 1 ms for a template
func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(manifestOf(everywhere))
	for _, c := range tabletest.Rows(f, "testdata/tables/mistakes.txt") {
		f.Add(manifestOf(c.Input))
	}
	f.Add([]byte(`{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"a"},"spec":{"inject":{}}}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 {
			return // longer than any seed
		}
		tmpl, _, err := Compile(data, Options{Source: "f"})
		if (tmpl == nil) == (err == nil) {
			t.Fatalf("template %v and error %v", tmpl, err)
		}
		if bad, ok := err.(*CompileError); err != nil && (!ok || len(bad.Problems) == 0) {
			t.Fatalf("error %T without problems", err)
		}
		if err != nil {
			return
		}
		in := Input{Pod: probeInputs()[1].Pod}
		first, err := tmpl.Render(t.Context(), in)
		if err != nil {
			return
		}
		if again, err := tmpl.Render(t.Context(), in); err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("a second render differs: %v %+v, and at first %+v", err, again, first)
		}
		for root := range fragmenttest.Object(first.Fragment) {
			if root != "metadata" && root != "spec" && root != "$onConflict" {
				t.Fatalf("the fragment has %s", fmt.Sprint(root))
			}
		}
	})
}
