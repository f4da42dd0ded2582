package param

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// setOf compiles one parameter p of the template t.
func setOf(t testing.TB, d v1alpha1.Parameter) *Set {
	t.Helper()
	d.Name = "p"
	return Compile(Template{Name: "t", Patterns: &Patterns{}}, []v1alpha1.Parameter{d}, nil, func(_ *manifest.Path, message string) { t.Fatal(message) })
}

func TestTheRefusalOfJSONShowsThePlaceOfTheMistake(t *testing.T) {
	long := strings.Repeat(`"filler", `, 1000)
	json := setOf(t, v1alpha1.Parameter{Type: v1alpha1.JSON})
	for name, c := range map[string]struct{ text, shown, says string }{
		"short":             {`{"a": 1,}`, `"{\"a\": 1,>>>}"`, "must be JSON: invalid character '}'"},
		"far into it":       {`[` + long + `oops, ` + long + `1]`, `"filler\", >>>oops, \"filler`, "must be JSON: invalid character 'o'"},
		"at the end":        {`[` + long, `"filler\", >>>"`, "must be JSON: unexpected end"},
		"empty":             {"", `">>>"`, "must be JSON: unexpected end"},
		"a second value":    {`{"a": 1} {`, `"{\"a\": 1} >>>{"`, "must be JSON: invalid character '{'"},
		"several bytes":     {`["ää", ä]`, `"[\"ää\", >>>ä]"`, "must be JSON: invalid character"},
		"control character": {"[\"a\nb\"]", `"[\"a>>>\nb\"]"`, "must be JSON: invalid character"},
	} {
		_, err := json.Resolve(Annotations{Pod: map[string]string{"t.pillion.dev/p": c.text}})
		bad, ok := err.(*Error)
		if !ok {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		if !strings.Contains(bad.Value, c.shown) || !strings.Contains(bad.Message, c.says) {
			t.Errorf("%s: %s, want %s and %s", name, bad, c.shown, c.says)
		}
		if n := utf8.RuneCountInString(bad.Error()); n > 400 {
			t.Errorf("%s: %d characters", name, n)
		}
	}
}

func TestALongValueOfAnyTypeIsClippedInItsRefusal(t *testing.T) {
	one := int64(1)
	long := strings.Repeat("ä", 100_000)
	for _, d := range []v1alpha1.Parameter{
		{Type: v1alpha1.String, Constraints: v1alpha1.Constraints{MaxLength: &one}}, {Type: v1alpha1.JSON, Constraints: v1alpha1.Constraints{MaxLength: &one}},
		{Type: v1alpha1.Integer}, {Type: v1alpha1.Number}, {Type: v1alpha1.Boolean}, {Type: v1alpha1.Quantity}, {Type: v1alpha1.Duration}, {Type: v1alpha1.Image},
		{Type: v1alpha1.List, Items: &v1alpha1.Items{Type: v1alpha1.Integer}},
	} {
		for _, text := range []string{long, `"` + long + `"`} {
			_, err := setOf(t, d).Resolve(Annotations{Pod: map[string]string{"t.pillion.dev/p": text}})
			if err == nil {
				t.Errorf("%s takes it", d.Type)
			} else if n := utf8.RuneCountInString(err.Error()); n > 450 || !strings.Contains(err.Error(), "…") {
				t.Errorf("%s: %d characters: %s", d.Type, n, err)
			}
		}
	}
}
