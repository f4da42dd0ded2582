package templates_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// subject is a library template and a parameter of it that takes text.
type subject struct {
	template  *templates.Template
	parameter templates.Parameter
	// others are the annotations that the template needs besides.
	others map[string]string
}

// subjects are all templates of the library with each parameter whose values arrive as
// they are written: an enum's are known, a boolean or number has other forms.
func subjects(f testing.TB) []subject {
	f.Helper()
	var all []subject
	for _, name := range library.Names() {
		manifest, err := library.Get(name, nil)
		if err != nil {
			f.Fatal(err)
		}
		t, _, err := templates.Compile(manifest, templates.Options{})
		if err != nil {
			f.Fatal(err)
		}
		others := map[string]string{}
		for _, p := range t.Parameters() {
			if len(p.Example) > 0 {
				maps.Copy(others, asAnnotations(p, p.Example))
			}
		}
		for _, p := range t.Parameters() {
			c, kind := p.Constraints, p.Type
			if p.Items != nil {
				c, kind = p.Items.Constraints, p.Items.Type
			}
			if len(c.Enum) == 0 && len(p.SetBy) > 0 && kind != v1alpha1.Boolean && kind != v1alpha1.Number && kind != v1alpha1.JSON {
				all = append(all, subject{t, p, others})
			}
		}
	}
	return all
}

// asAnnotations writes an example or a default as a team would.
func asAnnotations(p templates.Parameter, value json.RawMessage) map[string]string {
	text := func(raw json.RawMessage) string {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
		return string(raw)
	}
	var entries map[string]json.RawMessage
	var items []json.RawMessage
	switch {
	case p.Type == v1alpha1.Map && json.Unmarshal(value, &entries) == nil:
		all := map[string]string{}
		for key, v := range entries {
			all[strings.TrimSuffix(p.Annotation, "KEY")+key] = text(v)
		}
		return all
	case p.Type == v1alpha1.List && json.Unmarshal(value, &items) == nil:
		var parts []string
		for _, item := range items {
			parts = append(parts, text(item))
		}
		return map[string]string{p.Annotation: strings.Join(parts, ",")}
	}
	return map[string]string{p.Annotation: text(value)}
}

const webPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
	"initContainers": [{"name": "migrate", "image": "m:1"}],
	"containers": [{"name": "web", "image": "w:1", "ports": [{"name": "http", "containerPort": 3000}]}]}}`

// with renders with one value of the parameter: a list has one item, a map one key.
func (s subject) with(t testing.TB, value string) (map[string]any, error) {
	t.Helper()
	annotations := maps.Clone(s.others)
	key := s.parameter.Annotation
	if s.parameter.Type == v1alpha1.Map {
		for other := range annotations {
			if strings.HasPrefix(other, strings.TrimSuffix(key, "KEY")) {
				delete(annotations, other)
			}
		}
		key = strings.TrimSuffix(key, "KEY") + "fuzz"
	}
	annotations[key] = value
	var pod map[string]any
	d := json.NewDecoder(strings.NewReader(webPod))
	d.UseNumber()
	if err := d.Decode(&pod); err != nil {
		t.Fatal(err)
	}
	onPod := map[string]any{}
	for _, p := range s.template.Parameters() {
		if !slices.Contains(p.SetBy, v1alpha1.Namespace) && annotations[p.Annotation] != "" {
			onPod[p.Annotation] = annotations[p.Annotation]
			delete(annotations, p.Annotation)
		}
	}
	pod["metadata"].(map[string]any)["annotations"] = onPod
	r, err := s.template.Render(t.Context(), templates.Input{Pod: pod, Namespace: templates.Namespace{Name: "shop", Annotations: annotations}})
	if err != nil {
		return nil, err
	}
	return r.Fragment, nil
}

// harmless are values that any parameter of text may have.
var harmless = []string{"example", "a", "1", "/example", "https://example.com", "https://example.com/oauth2/callback", "example.com", "1Mi", "64Mi", "1Gi", "30s", "10m", "100m", "8080", "example:1", "512Mi", "A_B", "*", "team/example", "10.0.0.1:8080"}

// maxFuzzed bounds the values of a target: a longer one is no other case.
const maxFuzzed = 1 << 10

// FuzzLibraryKeepsItsStructure holds, for every template of the library and any value of
// any parameter: the fragment has the structure that some harmless value gives, and where
// it differs from that, it holds the value to the byte.
func FuzzLibraryKeepsItsStructure(f *testing.F) {
	all := subjects(f)
	// known are the fragments that harmless values give.
	known := make([]map[string]map[string]any, len(all))
	for i, s := range all {
		known[i] = map[string]map[string]any{}
		values := slices.Clone(harmless)
		for _, raw := range []json.RawMessage{s.parameter.Default, s.parameter.Example} {
			for _, v := range asAnnotations(s.parameter, raw) {
				values = append(values, v)
			}
		}
		for _, v := range values {
			if fragment, err := s.with(f, v); err == nil {
				known[i][v] = fragment
			}
		}
		if len(known[i]) == 0 {
			f.Fatalf("%s: no harmless value is allowed", s.parameter.Annotation)
		}
	}
	for i := range all {
		for _, v := range []string{"", " ", "x", "${params.x}", "'; rm -rf / #", "\"}\n- {name: evil", "a,b", "--flag", "$(id)", "|", "{}", "&\"", "- a", "\x00", "é", "true", "null", "0x10", "1e3", "9223372036854775807"} {
			f.Add(uint16(i), v)
		}
	}
	f.Fuzz(func(t *testing.T, which uint16, value string) {
		if len(value) > maxFuzzed || !utf8.ValidString(value) {
			return // an API server sends no other texts
		}
		i := int(which) % len(all)
		s := all[i]
		intact := value
		if s.parameter.Type == v1alpha1.List {
			if intact = strings.TrimSpace(value); strings.Contains(value, ",") || intact == "" {
				return
			}
		}
		fragment, err := s.with(t, value)
		if err != nil || intact == "" {
			return // refused, which is as good; or nothing to look for
		}
		var why string
		for _, other := range slices.Sorted(maps.Keys(known[i])) {
			if why = differs(known[i][other], fragment, "", intact); why == "" {
				return
			}
		}
		t.Errorf("%s: %q gives another structure than any harmless value, or does not arrive intact: %s", s.parameter.Annotation, value, why)
	})
}

// differs says how a value of a fragment has another structure than a harmless one, or
// where a scalar or a key differs without holding the value.
func differs(harmless, got any, at, value string) string {
	switch was := harmless.(type) {
	case map[string]any:
		is, ok := got.(map[string]any)
		if !ok || len(is) != len(was) {
			return fmt.Sprintf("%s is %v, not %v", at, got, harmless)
		}
		// Keys that only one of them has belong together, in their order.
		var gone, come []string
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if _, ok := is[key]; !ok {
				gone = append(gone, key)
			} else if why := differs(was[key], is[key], at+"/"+key, value); why != "" {
				return why
			}
		}
		for _, key := range slices.Sorted(maps.Keys(is)) {
			if _, ok := was[key]; !ok {
				come = append(come, key)
			}
		}
		for i, key := range come {
			if !holds(key, value) {
				return fmt.Sprintf("%s has the key %q", at, key)
			}
			if why := differs(was[gone[i]], is[key], at+"/"+key, value); why != "" {
				return why
			}
		}
	case []any:
		is, ok := got.([]any)
		if !ok || len(is) != len(was) {
			return fmt.Sprintf("%s is %v, not %v", at, got, harmless)
		}
		for i := range was {
			if why := differs(was[i], is[i], fmt.Sprint(at, "/", i), value); why != "" {
				return why
			}
		}
	default:
		text, known := fmt.Sprint(got), fmt.Sprint(harmless)
		if was, is := embedded(known), embedded(text); was != nil && is != nil {
			return differs(was, is, at+"(JSON)", value)
		}
		if text != known && !holds(text, value) {
			return fmt.Sprintf("%s is %q, not %q", at, text, known)
		}
	}
	return ""
}

// embedded returns the object or list that a text is as JSON, or nil.
func embedded(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return nil
	}
	switch v.(type) {
	case map[string]any, []any:
		return v
	}
	return nil
}

// holds reports whether text has the value to the byte, as it is, as JSON or as a word of
// a shell.
func holds(text, value string) bool {
	var quoted strings.Builder
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // a text can be encoded
	inJSON := strings.TrimSuffix(strings.TrimPrefix(quoted.String(), `"`), "\"\n")
	return slices.ContainsFunc([]string{value, inJSON, "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"},
		func(form string) bool { return strings.Contains(text, form) })
}

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
