package injector

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

// Of the templates of a large cluster most are at rest. A pod wakes those that it gets, and
// to decide which these are wakes none.
func TestAPodWakesTheTemplatesThatItGetsAndNoOther(t *testing.T) {
	var entries []templates.Entry
	for name, more := range map[string]string{
		"asked": "", "other": "", "default": "injectByDefault: true", "matched": "match: {podSelector: {matchLabels: {a: b}}}", "unmatched": "match: {podSelector: {matchLabels: {a: c}}}",
		"required": "required: true\n  match: {podSelector: {matchLabels: {a: c}}}", "elsewhere": "availableTo: {namespaceSelector: {matchLabels: {x: z}}}\n  match: {podSelector: {}}",
	} {
		text := []byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:\n  " + more + "\n  inject: {metadata: {labels: {" + name + ": x1}}}\n")
		compiled, _, err := templates.Compile(text, templates.Options{})
		if err != nil {
			t.Fatal(err)
		}
		resting := compiled.CanRest(text, templates.Options{})
		resting.Rest()
		entries = append(entries, templates.Entry{Name: name, Template: resting})
	}
	set := templates.NewSet(entries)
	checkAwake := func(want ...string) {
		t.Helper()
		var got []string
		for _, e := range set.All() {
			if !e.Template.AtRest() {
				got = append(got, e.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("awake are %v, want %v", got, want)
		}
	}
	pod := func(label, annotations string) map[string]any {
		return podOf(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"a":%q},"annotations":{%s}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`, label, annotations))
	}
	p := NewPipeline(Config{})
	for _, operation := range []string{"CREATE", "UPDATE"} {
		r := Request{Operation: operation, Pod: pod("", ""), Old: pod("", ""), Namespace: templates.Namespace{Name: "shop"}, Templates: set}
		if out, err := p.Verify(t.Context(), r); err != nil || !out.Allowed {
			t.Fatalf("%s: %s (%v)", operation, out.Message, err)
		}
	}
	injectOnce(t, set, pod("", ""))
	checkAwake()
	out := injectOnce(t, set, pod("b", `"pillion.dev/inject":"+asked"`))
	if labels := out.Pod["metadata"].(map[string]any)["labels"].(map[string]any); labels["asked"] != "x1" || labels["matched"] != "x1" {
		t.Errorf("the labels are %v", labels)
	}
	checkAwake("asked", "matched")
}
