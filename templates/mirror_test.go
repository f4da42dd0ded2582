package templates

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/library"
)

func TestWhatIsShownHasTheInstallersDefaultsAndWhatTheCRDFillsIn(t *testing.T) {
	values := map[string]any{"defaults": map[string]any{
		"a":     map[string]any{"image": "mirror/a:2", "size": 3, "out": map[string]any{"host": "h", "port": "1"}, "none": "x", "unknown": 1},
		"other": map[string]any{"log": "debug"},
	}}
	for what, c := range map[string]struct{ manifest, want string }{
		"defaults": {
			`{metadata: {name: a}, spec: {parameters: [{name: image, type: image, default: "a:1"}, {name: size, type: integer}, {name: log, type: string, default: info},
			  {name: out, type: map, items: string, default: {host: old, path: p}}, {name: none, type: map, items: string, default: {a: b}}], inject: {}}}`,
			`{"inject":{},"injectByDefault":false,"order":0,"parameters":[{"default":"mirror/a:2","name":"image","type":"image"},{"default":3,"name":"size","type":"integer"},{"default":"info","name":"log","type":"string"},` +
				`{"default":{"host":"h","path":"p","port":"1"},"items":"string","name":"out","type":"map"},{"default":"x","items":"string","name":"none","type":"map"}]}`,
		},
		"its own words":          {`{metadata: {name: b}, spec: {injectByDefault: true, order: 5, inject: {}}}`, `{"inject":{},"injectByDefault":true,"order":5}`},
		"nonsense":               {`{metadata: {name: a}, spec: {parameters: [1, {name: 2}, {name: image}, null], inject: 7}}`, `{"inject":7,"injectByDefault":false,"order":0,"parameters":[1,{"name":2},{"default":"mirror/a:2","name":"image"},null]}`},
		"no list of parameters":  {`{metadata: [], spec: {parameters: {}}}`, `{"injectByDefault":false,"order":0,"parameters":{}}`},
		"no spec":                {`{metadata: {name: a}}`, "error: the manifest has no spec"},
		"a spec of another kind": {`{spec: 7}`, "error: reading the spec"},
		"no manifest":            {`a: [`, "error: reading the manifest as YAML"},
	} {
		spec, err := Shown([]byte(c.manifest), values)
		data, _ := json.Marshal(spec)
		got := string(data)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: shown is\n%s\nwant\n%s", what, got, c.want)
		}
	}
}

// Who copies what is shown has a template that does the same, without the installer's values.
func TestWhatIsShownOfTheLibraryIsAnEqualTemplate(t *testing.T) {
	for _, name := range library.Names() {
		text, err := library.Get(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := Shown(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := json.Marshal(map[string]any{"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": name}, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		original, _, err := Compile(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if shown, _, err := Compile(manifest, Options{}); err != nil || shown.Hash() != original.Hash() {
			t.Errorf("%s: what is shown compiles to another template: %v", name, err)
		}
	}
}
