package charts_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// nasty are texts that end, begin or expand something somewhere.
var nasty = []string{
	`"`, `'`, `\`, "`id`", "$(id)", "${id}", "$$", "a\nb", "a\r\nb", "\t", " x ", "- a", "a: b", "{a: b}", "[a]", "# a", "&a", "*a", "!!a", "|", ">",
	"{{", "}}", `{{ env "HOME" }}`, "%s", "; id", "&& id", "|| id", "> /x", "--help", "-x", "a,b", "a=b", "a b", "../x", "/../x", "null", "true", "1e3", "0x1", "~", "",
	"\u0000", "\u2028", "\ufeff", "é", "日本", "\U0001f600", `x","y":"z`, "x'}]}}", "http://x?a=b&c=d#e", `https://x"}}{{ env "HOME" }}`, "https://a'b\"c", "git@a:b'c\"d",
}

// plainTexts are texts that do nothing anywhere; some of them is of most forms.
var plainTexts = []string{
	"zqa", "zqb", "zqc", "zqd", "zq-a.example.com", "zq-b.example.com", "https://zq.example.com", "/srv/zq", "/etc/certs/zq", "https://zq.example.com/zq.git", "ssh://zq.example.com/zq.git",
	"zq@zq.example.com:zq.git", "zq.example.com:15012", "zq-1:zq:a", "zq-1:zq:b", "zq-1:zq:c", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "/zq", "*",
	"https://zq.example.com/oauth2/callback", "http://zq.example.com:4317",
}

// pair is an accepted value and a harmless one of the same form, as annotations.
type pair struct{ hostile, harmless string }

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile(`\A(?:` + pattern + `)\z`) }

// alternatives splits a pattern at its outermost |. A template may do one thing for
// texts of one alternative, and another for those of another.
func alternatives(pattern string) []string {
	var parts []string
	depth, class, from := 0, false, 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			parts = append(parts, pattern[from:i])
			from = i + 1
		}
	}
	return append(parts, pattern[from:])
}

// drawText draws a text that the constraints accept and a harmless one, neither of
// them among taken.
func drawText(t *rapid.T, c v1alpha1.Constraints, taken []pair) pair {
	if len(c.Enum) > 0 {
		var text string
		errtest.ExpectNone(t, json.Unmarshal(rapid.SampledFrom(c.Enum).Draw(t, "enum"), &text))
		return pair{text, text}
	}
	pattern := c.Pattern
	if pattern == "" {
		pattern = "(?s).*"
	}
	accepts := func(text string) bool {
		return utf8.ValidString(text) && (c.MaxLength == nil || int64(utf8.RuneCountInString(text)) <= *c.MaxLength)
	}
	alternative := rapid.SampledFrom(alternatives(pattern)).Draw(t, "alternative")
	form := whole(alternative)
	candidates := slices.DeleteFunc(slices.Clone(nasty), func(s string) bool { return !form.MatchString(s) || !accepts(s) })
	generators := []*rapid.Generator[string]{rapid.StringMatching(alternative).Filter(accepts)}
	if len(candidates) > 0 {
		generators = append(generators, rapid.SampledFrom(candidates))
	}
	p := pair{hostile: rapid.OneOf(generators...).Draw(t, "text")}
	at := slices.IndexFunc(plainTexts, func(s string) bool {
		return form.MatchString(s) && accepts(s) && !slices.ContainsFunc(taken, func(q pair) bool { return q.harmless == s })
	})
	if p.harmless = p.hostile; at >= 0 {
		p.harmless = plainTexts[at]
	}
	return p
}

func plainJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// drawScalar draws a value of a scalar type and a harmless one, as annotations.
func drawScalar(t *rapid.T, kind v1alpha1.ParameterType, c v1alpha1.Constraints, taken []pair) pair {
	switch kind {
	case v1alpha1.String:
		return drawText(t, c, taken)
	case v1alpha1.Boolean:
		v := fmt.Sprint(rapid.Bool().Draw(t, "boolean"))
		return pair{v, v}
	case v1alpha1.Image:
		v := rapid.SampledFrom([]string{"a", "a:1", "example.com:5000/a/b__c-d:V.1-x", "a@sha256:" + strings.Repeat("0a", 32)}).Draw(t, "image")
		return pair{v, "zq.example.com/zq:1"}
	case v1alpha1.Integer:
		low, high := int64(0), int64(1)
		errtest.ExpectNone(t, json.Unmarshal(c.Minimum, &low))
		errtest.ExpectNone(t, json.Unmarshal(c.Maximum, &high))
		return pair{fmt.Sprint(rapid.Int64Range(low, high).Draw(t, "integer")), fmt.Sprint(low + (high-low)/2)}
	}
	bounds := []string{}
	for _, raw := range []json.RawMessage{c.Minimum, c.Maximum} {
		if raw != nil {
			bounds = append(bounds, plainJSON(raw))
		}
	}
	return pair{rapid.SampledFrom(bounds).Draw(t, "bound"), bounds[len(bounds)-1]}
}

// setting is one annotation, and whether its value is text that must arrive: no choice.
type setting struct {
	key string
	pair
	isText bool
}

// drawSettings draws annotations for some of a template's parameters.
func drawSettings(t *rapid.T, tmpl *templates.Template) []setting {
	var settings []setting
	for _, p := range tmpl.Parameters() {
		if !slices.Contains(p.SetBy, v1alpha1.Namespace) || !p.Required && !rapid.Bool().Draw(t, "set "+p.Name) {
			continue
		}
		switch p.Type {
		case v1alpha1.Map:
			keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b.c", "D_e", "f-g"}), 1, 3, rapid.ID[string]).Draw(t, "keys")
			var taken []pair
			for _, key := range keys {
				one := drawScalar(t, p.Items.Type, p.Items.Constraints, taken)
				taken = append(taken, one)
				settings = append(settings, setting{strings.TrimSuffix(p.Annotation, "KEY") + key, one, p.Items.Type == v1alpha1.String && len(p.Items.Enum) == 0})
			}
		case v1alpha1.List:
			var items []pair
			for range rapid.IntRange(1, 3).Draw(t, "items") {
				one := drawScalar(t, p.Items.Type, p.Items.Constraints, items)
				// A list cannot hold these, nor the same name twice where names are keys.
				unfit := strings.Contains(one.hostile, ",") || strings.TrimSpace(one.hostile) != one.hostile || one.hostile == ""
				if !unfit && !slices.ContainsFunc(items, func(q pair) bool { return q.hostile == one.hostile || q.harmless == one.harmless }) {
					items = append(items, one)
				}
			}
			if len(items) == 0 {
				if p.Required {
					t.Skip("no item")
				}
				continue
			}
			var all pair
			for i, one := range items {
				if i > 0 {
					all = pair{all.hostile + ",", all.harmless + ","}
				}
				all = pair{all.hostile + one.hostile, all.harmless + one.harmless}
			}
			settings = append(settings, setting{p.Annotation, all, false})
		default:
			settings = append(settings, setting{p.Annotation, drawScalar(t, p.Type, p.Constraints, nil), p.Type == v1alpha1.Image || p.Type == v1alpha1.String && len(p.Enum) == 0})
		}
	}
	return settings
}

// structure returns how the structure of got differs from that of want, or
// nothing. Texts in which want holds JSON have its structure, too.
func structure(want, got any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: %v and %v", at, want, got)
		}
		for key := range w {
			if _, ok := g[key]; !ok {
				return fmt.Sprintf("%s: no key %q in %v", at, key, got)
			}
			if d := structure(w[key], g[key], at+"."+key); d != "" {
				return d
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: %v and %v", at, want, got)
		}
		for i := range w {
			if d := structure(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
	case string:
		g, ok := got.(string)
		if !ok {
			return fmt.Sprintf("%s: text and %T", at, got)
		}
		if inner := inJSON(w); inner != nil {
			other := inJSON(g)
			if other == nil {
				return fmt.Sprintf("%s: JSON and %q", at, g)
			}
			return structure(inner, other, at+"(JSON)")
		}
	default:
		if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
			return fmt.Sprintf("%s: %T and %T", at, want, got)
		}
	}
	return ""
}

// inJSON returns the object or list that a text holds, or nil.
func inJSON(text string) any {
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return nil
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return nil
	}
	return v
}

// arrives reports whether some scalar holds the text as it is.
func arrives(v any, text string) bool {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			if arrives(v[key], text) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return arrives(item, text) })
	case string:
		if strings.Contains(v, text) {
			return true
		}
		if inner := inJSON(v); inner != nil {
			return arrives(inner, text)
		}
	}
	return false
}

// shells returns what the containers with a shell tell it.
func shells(fragment map[string]any) []any {
	var texts []any
	spec, _ := fragment["spec"].(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			c := item.(map[string]any)
			if command, _ := c["command"].([]any); len(command) > 0 && command[0] == "/bin/sh" {
				texts = append(texts, command, c["args"])
			}
		}
	}
	return texts
}

func TestNoValueThatATemplateAcceptsChangesItsStructure(t *testing.T) {
	for _, name := range charts.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmpl := compile(t, name, nil, nil)
			pods := []map[string]any{fragmenttest.Decode(t, minimalPod), fragmenttest.Decode(t, fullPod)}
			arrived := map[string]bool{} // each annotation, and whether a harmless value of it did
			rapid.Check(t, func(t *rapid.T) {
				settings := drawSettings(t, tmpl)
				hostile, harmless := map[string]string{}, map[string]string{}
				for _, s := range settings {
					hostile[s.key], harmless[s.key] = s.hostile, s.harmless
				}
				pod := rapid.SampledFrom(pods).Draw(t, "pod")
				render := func(annotations map[string]string) map[string]any {
					r, err := tmpl.Render(t.Context(), templates.Input{Pod: pod, Namespace: templates.Namespace{Name: "shop", Annotations: annotations}})
					if err != nil && strings.Contains(err.Error(), "two items have the same") {
						t.Skip("two ports that are one: the pod is refused")
					}
					if err != nil {
						t.Fatalf("with %q: %v", annotations, err)
					}
					if len(r.Invalid) > 0 {
						t.Skip("a limit below a request: the pod is refused")
					}
					return fragmenttest.Object(r.Fragment)
				}
				got, want := render(hostile), render(harmless)
				if d := structure(want, got, ""); d != "" {
					t.Fatalf("with %q the structure is another than with %q: %s", hostile, harmless, d)
				}
				if a, b := shells(want), shells(got); !reflect.DeepEqual(a, b) {
					t.Fatalf("with %q a shell's text is %q, with %q %q", hostile, b, harmless, a)
				}
				for _, s := range settings {
					// A resource attribute has %20 for a space.
					encoded := strings.ReplaceAll(s.hostile, " ", "%20")
					plain, there := arrives(want, s.harmless), arrives(got, s.hostile) || arrives(got, encoded)
					byChance := there && len(s.hostile) < 4
					if arrived[s.key] = arrived[s.key] || plain || !s.isText; s.isText && plain != there && !byChance {
						t.Fatalf("the value %q of %s does not arrive as it is:\n%v", s.hostile, s.key, got)
					}
				}
			})
			for key, once := range arrived {
				if !once {
					t.Errorf("no value of %s arrives as it is", key)
				}
			}
		})
	}
}
