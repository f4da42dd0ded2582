package injector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

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
		{"long loops, refused", conditions(loop(0), loop(1), loop(2)), strings.Repeat("a", 25_000)},
		{"matches", conditions("lists.range(9).filter(i, " + text + ".matches('([a-z]{0,63}x)*b')).size()"), strings.Repeat("a", 300)},
		{"matches, refused", conditions(text + ".matches('([a-z]{0,63}x)*b')"), strings.Repeat("a", 250_000)},
		{"pattern", "  parameters: [{name: p, type: string, pattern: \"([a-z]{0,63})*b?\"}]\n", strings.Repeat("a", 200)},
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
