package injector

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// A pod asks in vain for a template that renders to nothing, and in an excluded namespace.
// Where the pod has everything already, nothing is missing.
func TestAPodThatAsksInVainGetsAWarning(t *testing.T) {
	set := setOf(t, map[string]string{
		"nothing": `inject: {spec: {containers: [{$each: App, env: [{$if: "false", name: A, value: b}]}, {$if: "false", name: x, image: "x:1"}]}}`,
		"equal":   `inject: {metadata: {labels: {a: b}}}`,
		"match":   "match: {podSelector: {}}\n  " + `inject: {metadata: {labels: {$if: "false", a: b}}}`,
	})
	for _, c := range []struct{ asks, namespace, warning string }{
		{"+nothing", "shop", "NothingToInject: without nothing: " + reason.NothingToInject.Sentence()},
		{"+equal", "shop", ""},
		{"nothing,equal", "kube-system", "NamespaceExcluded: nothing is injected, whatever pillion.dev/inject says"},
		{"false", "kube-system", ""},
		{"", "shop", ""},
	} {
		pod := podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"a":"b"},"annotations":{}},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`)
		if c.asks != "" {
			pod["metadata"].(map[string]any)["annotations"].(map[string]any)["pillion.dev/inject"] = c.asks
		}
		out, err := NewPipeline(Config{ExcludedNamespaces: []string{"kube-system"}}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: c.namespace}, Templates: set})
		if got := strings.Join(out.Warnings, " "); err != nil || !out.Allowed || len(out.Operations) > 0 || c.warning == "" && got != "" || !strings.Contains(got, c.warning) {
			t.Errorf("%q in %s: %v %s, warnings %q, want %q", c.asks, c.namespace, err, out.Message, got, c.warning)
		}
	}
}
