package injector

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// A pod asks in vain for a template that renders to nothing, and in an excluded namespace.
// Where the pod has everything already, nothing is missing.
func TestAPodThatAsksInVainGetsAWarning(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{
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

func TestASidecarThatNeverStartsIsAWarning(t *testing.T) {
	for _, c := range []struct{ sidecar, pod, want string }{
		{"{runAsNonRoot: true}", `"runAsUser":0`, "template side: the container side never starts: runAsUser is 0 (of the pod) and runAsNonRoot is true (of the container)"},
		{"{runAsUser: 0}", `"runAsNonRoot":true`, "runAsUser is 0 (of the container) and runAsNonRoot is true (of the pod)"},
		{"{runAsUser: 0, runAsNonRoot: false}", `"runAsNonRoot":true`, ""},
		{"{runAsNonRoot: true}", `"runAsUser":1000`, ""},
	} {
		set := templatestest.Specs(t, map[string]string{"side": `inject: {spec: {initContainers: [{name: side, image: "side:1", restartPolicy: Always, securityContext: ` + c.sidecar + `}]}}`})
		pod := podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{"pillion.dev/inject":"side"}},"spec":{"securityContext":{`+c.pod+`},"containers":[{"name":"web","image":"web:1"}]}}`)
		out := injectOnce(t, set, pod)
		if got := strings.Join(out.Warnings, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s in a pod with %s: %q; want %q", c.sidecar, c.pod, got, c.want)
		}
	}
}

// A Job's pod ends when its ordinary containers have ended, and a native sidecar keeps none from it.
func TestAnOrdinaryContainerOfATemplateKeepsAJobFromFinishing(t *testing.T) {
	const ordinary, native = "{containers: [{name: side, image: s}]}", "{initContainers: [{name: side, image: s, restartPolicy: Always}]}"
	for name, c := range map[string]struct {
		template, kind string
		warns          bool
	}{
		"an ordinary container":     {ordinary, "Job", true},
		"a native sidecar":          {native, "Job", false},
		"the pod's own is extended": {"{containers: [{name: work, tty: true}, {$each: App, stdin: true}]}", "Job", false},
		"another workload's":        {ordinary, "ReplicaSet", false},
	} {
		set := templatestest.Specs(t, map[string]string{"side": "inject: {spec: " + c.template + "}"})
		pod := podOf(t, `{"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "`+c.kind+`", "name": "x", "controller": true}], "annotations": {"pillion.dev/inject": "side"}},
			"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "w"}]}}`)
		for call := range 2 { // a warning must not depend on which call it is
			out := injectOnce(t, set, pod)
			text := strings.Join(out.Warnings, "\n")
			if pod = out.Pod; !out.Allowed || strings.HasPrefix(text, string(reason.JobNeverFinishes)+": template side: the Job finishes only when the container side ends") != c.warns {
				t.Errorf("%s, call %d: %s %q", name, call, out.Message, text)
			}
		}
	}
}
