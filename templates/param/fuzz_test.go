package param

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// maxFuzzed bounds the inputs of a target: a longer one is no other case.
const maxFuzzed = 1 << 10

// everyType is a parameter of each type, with and without constraints, by its name.
const everyType = `[
	{"name": "string", "type": "string"},
	{"name": "matched", "type": "string", "pattern": "[a-z]*(-[a-z]+)?", "maxLength": 8},
	{"name": "chosen", "type": "string", "enum": ["a", "b c"]},
	{"name": "integer", "type": "integer"},
	{"name": "bounded", "type": "integer", "minimum": -2, "maximum": 65535},
	{"name": "number", "type": "number", "maximum": "1e6"},
	{"name": "boolean", "type": "boolean"},
	{"name": "quantity", "type": "quantity"},
	{"name": "memory", "type": "quantity", "minimum": "1Mi", "maximum": "1Gi"},
	{"name": "duration", "type": "duration", "minimum": "-1h"},
	{"name": "image", "type": "image"},
	{"name": "json", "type": "json", "maxLength": 500},
	{"name": "list", "type": "list", "items": {"type": "string", "pattern": "[^ ]*"}},
	{"name": "numbers", "type": "list", "items": {"type": "integer"}},
	{"name": "map", "type": "map", "items": {"type": "quantity"}}
]`

func compiledSet(t testing.TB, declared string) *Set {
	t.Helper()
	var parameters []v1alpha1.Parameter
	if err := json.Unmarshal([]byte(declared), &parameters); err != nil {
		t.Fatal(err)
	}
	return Compile(Template{Name: "t", Patterns: &Patterns{}}, parameters, nil, func(_ *manifest.Path, message string) { t.Fatal(message) })
}

// fits says why a typed value is not what the text is. The types are read apart from the
// code under test.
func fits(d v1alpha1.Parameter, text string, value any) string {
	kind := d.Type
	if d.Items != nil {
		kind = d.Items.Type
	}
	ok := false
	switch v := value.(type) {
	case string:
		ok = v == text
		switch kind {
		case v1alpha1.Quantity:
			_, err := resource.ParseQuantity(v)
			ok = ok && err == nil
		case v1alpha1.Duration:
			_, err := time.ParseDuration(v)
			ok = ok && err == nil
		case v1alpha1.String, v1alpha1.Image:
		default:
			ok = kind == v1alpha1.JSON
		}
	case int64:
		ok = kind == v1alpha1.Integer && strconv.FormatInt(v, 10) == text || text == "-0" && v == 0
	case float64:
		want, err := strconv.ParseFloat(text, 64)
		ok = kind == v1alpha1.Number && err == nil && want == v
	case bool:
		ok = kind == v1alpha1.Boolean && strconv.FormatBool(v) == text
	}
	if kind == v1alpha1.JSON {
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		ok = d.Decode(&want) == nil && reflect.DeepEqual(want, value)
	}
	if !ok {
		return string(kind) + " of the text " + strconv.Quote(text) + " is another value"
	}
	return ""
}

// FuzzParameterValue holds for a parameter of each type: a text is the value that it says,
// or it is refused with a message that is fit to print.
func FuzzParameterValue(f *testing.F) {
	set := compiledSet(f, everyType)
	declared := set.Declarations()
	for i := range declared {
		for _, seed := range []string{"", " ", "a", "b c", "abc-d", "1", "-0", "65536", "1e3", "1.50", "true", "64Mi", "0.5Gi", "1e99", "30s", "1h1m", "-1h", "nginx:1", "a.b:80/c@sha256:" + strings.Repeat("a", 64),
			`{"a": [1.10, null]}`, `{"a": 1,}`, `"\ud800"`, "1,2", "a, b,,c", "1 2", "\x00", "\x1b[31m\n\u202e", "é\u2028", "[[[[[["} {
			f.Add(uint8(i), seed, seed)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text, namespaces string) {
		if len(text) > maxFuzzed || len(namespaces) > maxFuzzed {
			return
		}
		d := declared[int(which)%len(declared)]
		key := "t.pillion.dev/" + d.Name
		if d.Type == v1alpha1.Map {
			key += ".k"
		}
		a := Annotations{Pod: map[string]string{key: text}, Namespace: map[string]string{key: namespaces}}
		got, err := set.Resolve(a)
		again, err2 := set.Resolve(a)
		if !reflect.DeepEqual(got, again) || !reflect.DeepEqual(err, err2) {
			t.Fatalf("%s: %v, %v, and then %v, %v", d.Name, got, err, again, err2)
		}
		if err != nil {
			printable(t, err)
			return
		}
		value := got.ByName[d.Name]
		switch d.Type {
		case v1alpha1.List:
			items := value.([]any)
			parts := strings.Split(text, ",")
			if strings.TrimSpace(text) == "" {
				parts = nil
			}
			if len(items) != len(parts) {
				t.Fatalf("%q has %d items, want %d", text, len(items), len(parts))
			}
			for i, part := range parts {
				if why := fits(d, strings.TrimSpace(part), items[i]); why != "" {
					t.Fatal(why)
				}
			}
		case v1alpha1.Map:
			if why := fits(d, text, value.(map[string]any)["k"]); why != "" {
				t.Fatal(why)
			}
		default:
			if why := fits(d, text, value); why != "" {
				t.Fatal(why)
			}
		}
		if got.Origins[d.Name] != FromPod {
			t.Fatalf("the value is from %s", got.Origins[d.Name])
		}
	})
}

// printable fails unless an error is one of a team's, short and on one line.
func printable(t *testing.T, err error) {
	t.Helper()
	bad, ok := err.(*Error)
	if !ok || bad.Message == "" || bad.Annotation == "" {
		t.Fatalf("error %T %v", err, err)
	}
	text := err.Error()
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > 2000 || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsRune(text, '\u202e') {
		t.Fatalf("%q is not fit to print", text)
	}
}

// FuzzParameterAnnotations holds that an annotation under any key is a parameter's value, or
// refused.
func FuzzParameterAnnotations(f *testing.F) {
	set := compiledSet(f, `[{"name": "logLevel", "type": "string", "default": "info"}, {"name": "caURL", "type": "string", "setBy": ["Namespace"]}, {"name": "output", "type": "map", "items": {"type": "string"}}]`)
	for _, seed := range []string{"log-level", "logLevel", "log-levle", "ca-url", "output", "output.", "output.a", "output.a.b", "", ".", "\x00", "log-level.a", ".00\x000", strings.Repeat("a", 200)} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, suffix string, pods bool) {
		if len(suffix) > maxFuzzed {
			return
		}
		annotations := map[string]string{"t.pillion.dev/" + suffix: "v", "other.pillion.dev/x": "y"}
		a := Annotations{Namespace: annotations}
		if pods {
			a = Annotations{Pod: annotations}
		}
		got, err := set.Resolve(a)
		if err != nil {
			printable(t, err)
			return
		}
		set := 0
		for _, origin := range got.Origins {
			if origin == FromPod || origin == FromNamespace {
				set++
			}
		}
		if set != 1 {
			t.Fatalf("%q sets %d parameters", suffix, set)
		}
	})
}
