package injector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// wide takes a step for each of its 960 instructions at each character of a text of a's: a few
// characters are a large program.
const wide = "(a?){240}"

// ownTemplates are n templates of the namespace shop, t0 and so on, each with these fields.
func ownTemplates(tb testing.TB, n int, fields string) *templates.Set {
	tb.Helper()
	var entries []templates.Entry
	for i := range n {
		name := fmt.Sprintf("t%d", i)
		compiled, _, err := templates.Compile([]byte(manifestOf(namespaced, "shop", name, "  match: {}\n"+fields+sidecar(name))), templates.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		entries = append(entries, templates.Entry{Name: name, Namespace: "shop", Template: compiled})
	}
	return templates.NewSet(entries)
}

// conditions are fields that evaluate expressions. What these return does not matter.
func conditions(expressions ...string) string {
	fields := "  matchConditions:\n"
	for i, e := range expressions {
		fields += fmt.Sprintf("  - {name: c%d, expression: \"dyn(%s) != 'x'\"}\n", i, e)
	}
	return fields
}

func annotated(tb testing.TB, set *templates.Set, annotations map[string]any) injector.Outcome {
	tb.Helper()
	out, err := injector.NewPipeline(injector.Config{}).Inject(context.Background(), injector.Request{
		Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: "shop"},
		Pod: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "annotations": annotations},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "registry.example.com/app:1"}}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// A regular expression of a tenant costs what its program takes for the text, and not what its own
// text is long. Nothing is matched that costs too much.
func TestARegularExpressionOfATenantCostsItsProgram(t *testing.T) {
	const text = "pod.metadata.?annotations[?'text'].orValue('')"
	words := strings.Repeat("some words ", 20)
	for name, c := range map[string]struct {
		fields, text string
		code         reason.Code
	}{
		"matches":             {conditions(text + ".matches('" + wide + "b')"), strings.Repeat("a", 4000), reason.TemplateTooExpensive},
		"matches, in an or":   {conditions(text + ".matches('" + wide + "b') || true"), strings.Repeat("a", 4000), reason.TemplateTooExpensive},
		"matches a function":  {conditions("matches(" + text + ", '" + wide + "b')"), strings.Repeat("a", 4000), reason.TemplateTooExpensive},
		"find":                {conditions(text + ".find('" + wide + "b')"), strings.Repeat("a", 4000), reason.TemplateTooExpensive},
		"findAll":             {conditions(text + ".findAll('a*b|a')"), strings.Repeat("a", 4000), reason.TemplateTooExpensive},
		"findAll, some":       {conditions(text + ".findAll('a*b|a', 1000)"), strings.Repeat("a", 4000), reason.TemplateTooExpensive},
		"findAll, few":        {conditions(text + ".findAll('a*b|a', 10)"), strings.Repeat("a", 4000), reason.Injected},
		"often":               {conditions("lists.range(100).filter(i, " + text + ".matches('" + wide + "b'))"), strings.Repeat("a", 400), reason.TemplateTooExpensive},
		"a short text":        {conditions(text + ".matches('" + wide + "b')"), strings.Repeat("a", 400), reason.Injected},
		"a name":              {conditions(text + ".matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')"), strings.Repeat("a", 253), reason.Injected},
		"words":               {conditions(text + ".findAll('[a-z]+')"), words, reason.Injected},
		"a pattern":           {"  parameters: [{name: p, type: string, default: a, pattern: \"" + wide + ".*\"}]\n", strings.Repeat("a", 4000), reason.BadParameter},
		"a pattern of items":  {"  parameters: [{name: p, type: list, items: {type: string, pattern: \"" + wide + ".*\"}}]\n", strings.Repeat("a,", 2000), reason.BadParameter},
		"a pattern of values": {"  parameters: [{name: p, type: map, items: {type: string, pattern: \"" + wide + ".*\"}}]\n", strings.Repeat("a", 4000), reason.BadParameter},
		"a pattern of a name": {"  parameters: [{name: p, type: string, default: a, pattern: \"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\"}]\n", strings.Repeat("a", 63), reason.Injected},
		"a pattern of a path": {"  parameters: [{name: p, type: string, default: a, pattern: \"[a-z]{1,100}\"}]\n", strings.Repeat("a", 100), reason.Injected},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]any{"text": c.text}
			switch {
			case name == "a pattern of values":
				annotations = map[string]any{"t0.pillion.dev/p.a": c.text[:2000], "t0.pillion.dev/p.b": c.text[2000:]}
			case strings.HasPrefix(name, "a pattern"):
				annotations = map[string]any{"t0.pillion.dev/p": c.text}
			}
			own := ownTemplates(t, 1, c.fields)
			out := annotated(t, own, annotations)
			if out.Code != c.code {
				t.Errorf("%s: %s, want %s", out.Code, out.Message, c.code)
			}
			if c.code == reason.BadParameter && !strings.Contains(out.Message, "takes too long to be matched with its pattern of some 9") {
				t.Errorf("it says %s", out.Message)
			}
			// Lint says of a sample pod what the server says of it.
			pod := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"containers": []any{map[string]any{"name": "app"}}}}
			for _, e := range own.In("shop").All() {
				if _, err := e.Template.RenderExample(templates.Input{Pod: pod, Namespace: templates.Namespace{Name: "shop"}}, false); c.code == reason.BadParameter && (err == nil || !strings.Contains(err.Error(), "takes too long")) {
					t.Errorf("an example of it says %v", err)
				}
			}
		})
	}
	for field, fields := range map[string]string{
		"default":       "type: string, pattern: \"" + wide + ".*\", default: " + strings.Repeat("a", 4000),
		"enum":          "type: string, pattern: \"" + wide + ".*\", enum: [" + strings.Repeat("a, ", 2000) + "a]",
		"items.enum":    "type: list, items: {type: string, pattern: \"" + wide + ".*\", enum: [" + strings.Repeat("a, ", 2000) + "a]}",
		"default, list": "type: list, items: {type: string, pattern: \"" + wide + ".*\"}, default: [" + strings.Repeat("a, ", 2000) + "a]",
	} {
		field, _, _ = strings.Cut(field, ",")
		_, _, err := templates.Compile([]byte(manifestOf(namespaced, "shop", "t", "  match: {}\n  parameters: [{name: p, "+fields+"}]\n"+sidecar("t"))), templates.Options{})
		if err == nil || !strings.Contains(err.Error(), "spec.parameters[0]."+field+": has ") || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("%s: %.300v", field, err)
		}
	}
}

// BenchmarkTheWorstReviewOfANamespace is one review of a pod with twenty templates of its namespace.
// They are close to the highest cost that is allowed, or refused for theirs. Loops are the measure of
// the others.
func BenchmarkTheWorstReviewOfANamespace(b *testing.B) {
	const text = "pod.metadata.?annotations[?'text'].orValue('')"
	loop := func(i int) string { return fmt.Sprintf("%s.split('').all(a, a != '%d')", text, i) }
	for _, c := range []struct {
		name, fields, text string
	}{
		{"loops", conditions(loop(0), loop(1), loop(2)), strings.Repeat("a", 3_000)},
		{"long loops", conditions(loop(0), loop(1), loop(2)), strings.Repeat("a", 25_000)},
		{"matches", conditions("lists.range(9).filter(i, " + text + ".matches('" + wide + "b')).size()"), strings.Repeat("a", 300)},
		{"matches, refused", conditions(text + ".matches('" + wide + "b')"), strings.Repeat("a", 250_000)},
		{"findAll, refused", conditions(text + ".findAll('a*b|a')"), strings.Repeat("a", 4000)},
		{"findAll", conditions("lists.range(9).filter(i, " + text + ".findAll('a*b|a').size() > 0).size()"), strings.Repeat("a", 160)},
		{"pattern", "  parameters: [{name: p, type: string, pattern: \"(" + wide + ")*b?\"}]\n", strings.Repeat("a", 3000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			set := ownTemplates(b, templates.MaxInNamespace, c.fields)
			annotations := map[string]any{"text": c.text}
			if c.name == "pattern" {
				annotations = map[string]any{}
				for i := range templates.MaxInNamespace {
					annotations[fmt.Sprintf("t%d.pillion.dev/p", i)] = c.text
				}
			}
			var out injector.Outcome
			for b.Loop() {
				out = annotated(b, set, annotations)
			}
			if out.Allowed == strings.HasSuffix(c.name, "refused") {
				b.Errorf("allowed: %t: %.300s", out.Allowed, out.Message)
			}
		})
	}
}
