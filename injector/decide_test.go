package injector

import (
	"fmt"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
)

// manyTemplates returns a set of so many templates and one more, "asked". They are asked for,
// match other namespaces or match other pods.
func manyTemplates(t *testing.T, many int) *templates.Set {
	t.Helper()
	var kinds []*templates.Template
	for _, spec := range []string{"", "match: {namespaceSelector: {matchLabels: {team: other}}}, ", "required: true, match: {podSelector: {matchLabels: {app: other}}}, "} {
		text := fmt.Sprintf("{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: asked}, spec: {%sinject: {spec: {initContainers: [{name: asked, restartPolicy: Always, image: x}]}}}}", spec)
		template, _, err := templates.Compile([]byte(text), templates.Options{})
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, template)
	}
	entries := []templates.Entry{{Name: "asked", Template: kinds[0]}}
	for i := range many {
		entries = append(entries, templates.Entry{Name: fmt.Sprintf("other-%d", i), Template: kinds[i%len(kinds)]})
	}
	return templates.NewSet(entries)
}

// A pod costs what it asks for, and not what others could ask for.
func TestADecisionAllocatesAsMuchWithManyTemplatesAsWithFew(t *testing.T) {
	p := NewPipeline(Config{ExcludedNamespaces: []string{"kube-system"}})
	few, many := manyTemplates(t, 3), manyTemplates(t, 1000)
	for _, c := range []struct {
		name           string
		pod, namespace string
		budget         float64
		want           reason.Code // "" for a pod that is injected
	}{
		{"nobody asks", "", "", 6, reason.NotRequested},
		{"the pod opts out", "false", "", 8, reason.PodOptedOut},
		{"the namespace opts out", "", "false", 10, reason.NamespaceOptedOut},
		{"the namespace asks for one", "", "asked", 16, ""},
		{"the pod asks for one", "asked", "", 16, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			annotations := map[string]any{"prometheus.io/scrape": "true"}
			if c.pod != "" {
				annotations["pillion.dev/inject"] = c.pod
			}
			r := Request{
				Operation: "CREATE", Namespace: templates.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{}},
				Pod: map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web", "version": "1"}, "annotations": annotations}},
			}
			if c.namespace != "" {
				r.Namespace.Annotations["pillion.dev/inject"] = c.namespace
			}
			of := func(set *templates.Set) float64 {
				r.Templates = set
				if out, open := p.DecideByMetadata(r); out.Code != c.want || (open != nil) != (c.want == "") || len(out.Templates) > 0 {
					t.Fatalf("%+v, undecided %v; want %q", out, open, c.want)
				}
				return fewestAllocations(func() { p.DecideByMetadata(r) })
			}
			first, second := of(few), of(many)
			if first != second || first > c.budget {
				t.Errorf("%.0f allocations with few templates, %.0f with many; want the same, and at most %.0f", first, second, c.budget)
			}
		})
	}
}

// fewestAllocations returns the fewest allocations of several measurements: the race detector has
// pools forget at random, and so does the garbage collector.
func fewestAllocations(f func()) float64 {
	least := testing.AllocsPerRun(5, f)
	for range 20 {
		least = min(least, testing.AllocsPerRun(5, f))
	}
	return least
}

// After a decision by the metadata, the whole way parses no record and chooses no templates
// once more.
func TestAPodThatIsInjectedIsDecidedOnce(t *testing.T) {
	p := NewPipeline(Config{})
	r := Request{
		Operation: "CREATE", Templates: manyTemplates(t, 10),
		Namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "asked"}},
		Pod:       podOf(t, `{"metadata":{"name":"web","annotations":{}},"spec":{"containers":[{"name":"web","image":"x"}]}}`),
	}
	for _, call := range []string{"first", "second"} {
		var out Outcome
		whole := testing.AllocsPerRun(20, func() {
			var err error
			if out, err = p.Inject(t.Context(), r); err != nil || out.Code != reason.Injected {
				t.Fatalf("%+v %v", out, err)
			}
		})
		_, decided := p.DecideByMetadata(r)
		rest := testing.AllocsPerRun(20, func() {
			if _, err := p.InjectDecided(t.Context(), r, decided); err != nil {
				t.Fatal(err)
			}
		})
		parsing := testing.AllocsPerRun(20, func() { _, _ = record.Parse(r.Pod, "pillion.dev/status") })
		choosing := testing.AllocsPerRun(20, func() { p.choose(r, r.Pod, nil, nil) })
		if rest > whole-(parsing+choosing)*3/4 {
			t.Errorf("%s call: %.0f allocations after the decision, %.0f with it, of which %.0f parse the record and %.0f choose", call, rest, whole, parsing, choosing)
		}
		r.Pod = out.Pod
	}
}
