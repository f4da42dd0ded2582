package templates_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pillion-dev/pillion/templates"
)

const webPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
	"initContainers": [{"name": "migrate", "image": "m:1"}],
	"containers": [{"name": "web", "image": "w:1", "ports": [{"name": "http", "containerPort": 3000}]}]}}`

// maxFuzzed bounds the values of a target: a longer one is no other case.
const maxFuzzed = 1 << 10

// FuzzFilesAndArgumentsHoldTheirValues holds that whatever a tenant sets arrives as it is: as
// one argument, as the arguments of a list in its order, and as part of a file, to the byte.
func FuzzFilesAndArgumentsHoldTheirValues(f *testing.F) {
	t, _, err := templates.Compile([]byte(`
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: t}
spec:
  parameters: [{name: text, type: string}, {name: list, type: list, items: string}]
  variables: [{name: own, expression: "container.name + params.?text.orValue('')"}]
  files: {a: "<${params.?text.orValue('')}>\n", b: "${params.?text}"}
  inject:
    spec:
      initContainers: [{name: s, image: "s:1", args: [a, "${params.?text}", "${params.?list}", z], volumeMounts: [{name: t-files, mountPath: /t}]}]
      containers: [{$each: App, env: [{name: OWN, value: "${variables.own}"}]}]
`), templates.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "a", "a b", "a,b", ",", " a , b ", "${x}", "$(X)", "$$", "[1]", "--flag", "\n", "\x00\r\n\t", "é\u2028", "'\"`", strings.Repeat("x,", 500)} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(tt *testing.T, text, list string) {
		if len(text) > maxFuzzed || len(list) > maxFuzzed || !utf8.ValidString(text) || !utf8.ValidString(list) {
			return
		}
		var pod map[string]any
		if err := json.Unmarshal([]byte(webPod), &pod); err != nil {
			tt.Fatal(err)
		}
		pod["metadata"].(map[string]any)["annotations"] = map[string]any{"t.pillion.dev/text": text, "t.pillion.dev/list": list}
		r, err := t.Render(tt.Context(), templates.Input{Pod: pod})
		if err != nil {
			return // control characters, for one
		}
		if got := r.Files.Texts["t.files.pillion.dev/a"]; got != "<"+text+">\n" {
			tt.Fatalf("the file is %q; want %q in it", got, text)
		}
		if got := r.Files.Texts["t.files.pillion.dev/b"]; got != text {
			tt.Fatalf("the file is %q; want %q", got, text)
		}
		want := []any{"a", text}
		if strings.TrimSpace(list) != "" {
			for item := range strings.SplitSeq(list, ",") {
				want = append(want, strings.TrimSpace(item))
			}
		}
		spec := r.Fragment["spec"].(map[string]any)
		got := spec["initContainers"].([]any)[0].(map[string]any)["args"].([]any)
		if want = append(want, "z"); !slices.Equal(got, want) {
			tt.Fatalf("the arguments are %q; want %q", got, want)
		}
		own := spec["containers"].([]any)[0].(map[string]any)["env"].([]any)[0].(map[string]any)["value"]
		if own != "web"+text {
			tt.Fatalf("the variable is %q; want %q at its end", own, text)
		}
	})
}
