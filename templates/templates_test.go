package templates

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// manifestOf returns a template named t with the given body of its spec, which is
// indented as a whole.
func manifestOf(spec string) []byte {
	lines := strings.Split(strings.Trim(spec, "\n"), "\n")
	return []byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t}\nspec:\n  " + strings.Join(lines, "\n  ") + "\n")
}

// compiled compiles a spec that must be good.
func compiled(t testing.TB, spec string) *Template {
	t.Helper()
	return compiledWith(t, manifestOf(spec), Options{Source: "t.yaml"})
}

func compiledWith(t testing.TB, text []byte, o Options) *Template {
	t.Helper()
	tmpl, _, err := Compile(text, o)
	if err != nil {
		t.Fatalf("compiling: %v\n%s", err, text)
	}
	return tmpl
}

// raw decodes JSON as pods are.
func raw(t testing.TB, text string) map[string]any {
	t.Helper()
	v, err := rawjson.Decode([]byte(text))
	if err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return v.(map[string]any)
}

// onePod returns a pod with one container and the given annotations.
func onePod(t testing.TB, annotations map[string]string) map[string]any {
	t.Helper()
	pod := raw(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`)
	if len(annotations) > 0 {
		all := map[string]any{}
		for k, v := range annotations {
			all[k] = v
		}
		pod["metadata"].(map[string]any)["annotations"] = all
	}
	return pod
}

// asJSON writes a value so that two can be compared.
func asJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rendered renders for a pod, which must work.
func rendered(t testing.TB, tmpl *Template, in Input) *Rendered {
	t.Helper()
	r, err := tmpl.Render(t.Context(), in)
	if err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return r
}

// wantFragment compares a fragment with JSON.
func wantFragment(t testing.TB, got *fragment.Node, want string) {
	t.Helper()
	if got, want := asJSON(t, fragmenttest.JSON(got)), asJSON(t, raw(t, want)); got != want {
		t.Errorf("fragment\n got %s\nwant %s", got, want)
	}
}
