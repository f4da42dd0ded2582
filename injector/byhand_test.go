package injector_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// A template of a namespace gives no pod what a required template would have refused or extended,
// had the pod's author written it.
func TestATemplateOfANamespaceGetsNothingPastARequiredOne(t *testing.T) {
	const each = "  inject: {spec: {containers: [{$each: WHICH, env: [{name: AUDIT, value: \"on\"}]}]}}\n"
	const adds = `containers: [{name: app, $patch: delete}, {name: real, image: "x.example.com/app:1"}]`
	const addsInit = `initContainers: [{name: real, image: "x.example.com/app:1"}]`
	const validation = "  validations: [{name: v, expression: \"EXPR\"}]\n  inject: {metadata: {labels: {audited: \"yes\"}}}\n"
	const condition = "  matchConditions: [{name: v, expression: \"EXPR\"}]\n  inject: {metadata: {labels: {audited: \"yes\"}}}\n"
	for name, c := range map[string]struct {
		required, own string
		allowed       bool
	}{
		"all":       {strings.Replace(each, "WHICH", "All", 1), adds, false},
		"app":       {strings.Replace(each, "WHICH", "App", 1), adds, false},
		"init":      {strings.Replace(each, "WHICH", "Init", 1), addsInit, false},
		"all, init": {strings.Replace(each, "WHICH", "All", 1), addsInit, false},
		"app, init": {strings.Replace(each, "WHICH", "App", 1), addsInit, true},
		"images": {strings.Replace(validation, "EXPR", "pod.spec.containers.all(c, c.image.startsWith('registry.'))", 1),
			adds, false},
		"image is right":     {strings.Replace(validation, "EXPR", "pod.spec.containers.all(c, c.image.contains('.example.com/'))", 1), adds, true},
		"host network":       {strings.Replace(validation, "EXPR", "!pod.spec.?hostNetwork.orValue(false)", 1), "hostNetwork: true", false},
		"condition":          {strings.Replace(condition, "EXPR", "pod.spec.?hostNetwork.orValue(false)", 1), "hostNetwork: true", false},
		"reads nothing":      {"  inject: {metadata: {labels: {audited: \"yes\"}}}\n", adds, true},
		"no containers":      {strings.Replace(each, "WHICH", "All", 1), "volumes: [{name: v, emptyDir: {}}]", true},
		"changes app only":   {strings.Replace(each, "WHICH", "All", 1), `containers: [{name: app, env: [{name: X, value: set}]}]`, true},
		"for over the pod's": {"  inject: {spec: {containers: [{$for: c in pod.spec.containers, name: \"${c.name}\", env: [{name: AUDIT, value: \"on\"}]}]}}\n", adds, false},
	} {
		required := manifestOf("SidecarTemplate", "", "audit", "  required: true\n  match: {}\n"+c.required)
		own := manifestOf(namespaced, "shop", "mine", "  match: {}\n  inject: {spec: {"+c.own+"}}\n")
		set := setOf(t, required, own)
		out := injectInto(t, set, "shop", "")
		if out.Allowed != c.allowed {
			t.Errorf("%s: allowed %v: %s", name, out.Allowed, out.Message)
		}
		if !out.Allowed && (out.Code != "Conflict" || !strings.Contains(out.Message, "audit") || !strings.Contains(out.Message, "shop/mine")) {
			t.Errorf("%s: %s", name, out.Message)
		}
		// The record of a namespace without the required template is what a forger would write.
		record := injectInto(t, setOf(t, own), "shop", "")
		forged := injectInto(t, set, "shop", "")
		pods := map[string]map[string]any{"a record of the template alone": record.Pod}
		if forged.Allowed {
			pods = map[string]map[string]any{"its own record": forged.Pod}
		}
		for which, pod := range pods {
			r := injector.Request{Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: "shop"}, Pod: pod}
			p := injector.NewPipeline(injector.Config{})
			final, err := p.Verify(context.Background(), r)
			if err != nil || final.Allowed != c.allowed {
				t.Errorf("%s, %s: verified %v: %s %v", name, which, final.Allowed, final.Message, err)
			}
			again, err := p.Inject(context.Background(), r)
			if err != nil || again.Allowed && len(again.Operations) > 0 && c.allowed || again.Allowed && !c.allowed && verified(t, p, r, again) {
				t.Errorf("%s, %s: a second call allows it: %v %v", name, which, again.Operations, err)
			}
		}
	}
}

// A label from a template of a namespace gets no pod past a required template that selects pods by it.
func TestALabelOfANamespacesTemplateHidesNoPodFromARequiredOne(t *testing.T) {
	const audit = "  required: true\n  match: {podSelector: {matchLabels: {mesh: \"on\"}}}\n"
	const adds = "  inject: {metadata: {labels: {mesh: \"on\"}}}\n"
	for name, c := range map[string]struct {
		required, own string
		allowed       bool
	}{
		"the label":             {audit + sidecar("audit"), adds, false},
		"another label":         {audit + sidecar("audit"), "  inject: {metadata: {labels: {mesh: \"off\"}}}\n", true},
		"no label":              {audit + sidecar("audit"), sidecar("mine"), true},
		"suspended":             {"  suspend: true\n" + audit + sidecar("audit"), adds, true},
		"broken":                {audit + "  inject: {spec: {containers: [{nome: x}]}}\n", adds, false},
		"its condition is true": {audit + "  matchConditions: [{name: v, expression: \"!pod.spec.?hostNetwork.orValue(false)\"}]\n" + sidecar("audit"), adds, false},
		"its condition is false for the result": {audit + "  matchConditions: [{name: v, expression: \"!pod.spec.?hostNetwork.orValue(false)\"}]\n" + sidecar("audit"),
			"  inject: {metadata: {labels: {mesh: \"on\"}}, spec: {hostNetwork: true}}\n", true},
		"an exception that has the label": {audit + "  exceptions: [{name: e, reason: r, until: \"2999-01-01T00:00:00Z\", podSelector: {matchLabels: {mesh: \"on\"}}}]\n" + sidecar("audit"), adds, true},
	} {
		own := manifestOf(namespaced, "shop", "mine", "  match: {}\n"+c.own)
		set := setOf(t, manifestOf("SidecarTemplate", "", "audit", c.required), own)
		out := injectInto(t, set, "shop", "")
		if out.Allowed != c.allowed {
			t.Errorf("%s: allowed %v: %s", name, out.Allowed, out.Message)
		}
		if !out.Allowed && (out.Code != "Conflict" || !strings.Contains(out.Message, "audit") || !strings.Contains(out.Message, "shop/mine")) {
			t.Errorf("%s: %s", name, out.Message)
		}
		pod := injectInto(t, setOf(t, own), "shop", "").Pod // with the record that a forger would write
		final, err := injector.NewPipeline(injector.Config{}).Verify(context.Background(), injector.Request{Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: "shop"}, Pod: pod})
		if err != nil || final.Allowed != c.allowed {
			t.Errorf("%s: verified %v: %s %v", name, final.Allowed, final.Message, err)
		}
	}
	// A label of a template of the cluster selects nothing: an admin wrote both.
	set := setOf(t, manifestOf("SidecarTemplate", "", "audit", audit+sidecar("audit")), manifestOf("SidecarTemplate", "", "mesh", "  match: {}\n"+adds))
	if out := injectInto(t, set, "shop", ""); !out.Allowed || containers(out) != "app" {
		t.Errorf("a label of a template of the cluster: %s %s", containers(out), out.Message)
	}
}

func verified(t *testing.T, p *injector.Pipeline, r injector.Request, again injector.Outcome) bool {
	t.Helper()
	r.Pod = again.Pod
	final, err := p.Verify(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return final.Allowed
}

// Whoever changes what a namespace's template gave, as a mirror of images does, has no pod refused
// with it where the required template reads nothing of that.
func TestAChangedContainerOfANamespaceStandsBesideARequiredTemplate(t *testing.T) {
	set := setOf(t, manifestOf("SidecarTemplate", "", "audit", "  required: true\n  match: {}\n  inject: {metadata: {labels: {audited: \"yes\"}}}\n"),
		manifestOf(namespaced, "shop", "mine", "  match: {}\n"+sidecar("mine")))
	out := injectInto(t, set, "shop", "")
	list := out.Pod["spec"].(map[string]any)["containers"].([]any)
	list[1].(map[string]any)["image"] = "mirror.example.com/mine:1"
	final, err := injector.NewPipeline(injector.Config{}).Verify(context.Background(), injector.Request{Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: "shop"}, Pod: out.Pod})
	if err != nil || !final.Allowed {
		t.Errorf("%s %v", final.Message, err)
	}
}
