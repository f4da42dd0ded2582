package injector

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// adding returns the spec of a template that adds a container of that name.
func adding(name, fields string) string {
	return "{" + fields + `inject: {spec: {containers: [{name: ` + name + `, image: "x:1"}]}}}`
}

// askIn injects into a pod of a namespace that asks, "" for a pod that does not.
func askIn(t *testing.T, set *templates.Set, namespace, ask string) Outcome {
	annotations := ""
	if ask != "" {
		annotations = `"pillion.dev/inject":"` + ask + `"`
	}
	return injectIn(t, templates.Namespace{Name: namespace}, set, askingPod(t, annotations))
}

func TestATemplateOfANamespaceIsForItsOwnPods(t *testing.T) {
	set := templatestest.Any(t,
		templatestest.Manifest("shared", adding("shared", "order: 5, ")),
		templatestest.Manifest("taken", adding("of-the-cluster", "")),
		templatestest.Namespaced("shop", "named", adding("named", "order: -9, ")),
		templatestest.Namespaced("shop", "default", adding("default", "injectByDefault: true, ")),
		templatestest.Namespaced("shop", "taken", adding("of-the-team", "match: {}, ")),
		templatestest.Namespaced("pay", "matching", adding("matching", "match: {podSelector: {}}, ")),
		templatestest.Namespaced("pay", "named", adding("of-pay", "")))
	for _, c := range []struct {
		namespace, ask, want string
		code                 reason.Code
	}{
		{"shop", "", "web", reason.NotRequested}, // what matches is shadowed
		{"shop", "named,shared", "web named shared", reason.Injected},
		{"shop", "true", "web default", reason.Injected},
		{"shop", "taken", "web of-the-cluster", reason.Injected},
		{"shop", "matching", "web", reason.UnknownTemplate},
		{"pay", "", "web matching", reason.Injected},
		{"pay", "+named", "web matching of-pay", reason.Injected},
		{"pay", "default", "web", reason.UnknownTemplate},
		{"other", "named", "web", reason.UnknownTemplate},
		{"other", "true", "web", reason.NotRequested},
		{"other", "", "web", reason.NotRequested},
	} {
		out := askIn(t, set, c.namespace, c.ask)
		var names []string
		for _, container := range itemsOf(out.Pod, "containers") {
			names = append(names, nameOf(container))
		}
		if got := strings.Join(names, " "); got != c.want || out.Code != c.code {
			t.Errorf("in %s asking for %q the pod has %s (%s), want %s (%s)", c.namespace, c.ask, got, out.Code, c.want, c.code)
		}
		for _, o := range out.Templates {
			if own := !strings.HasPrefix(o.Name, "shared") && o.Name != "taken" && o.Code != reason.UnknownTemplate; o.Namespaced != own {
				t.Errorf("in %s the template %s counts as the namespace's own: %v", c.namespace, o.Name, o.Namespaced)
			}
		}
	}
}

func TestATemplateOfANamespaceHasNoFieldThatReachesBeyond(t *testing.T) {
	for field, want := range map[string]string{
		"required: true, match: {podSelector: {}}": "spec.required", "availableTo: {}": "spec.availableTo", "verify: {images: [a]}": "spec.verify",
		"match: {namespaceSelector: {}}": "spec.match.namespaceSelector", "canary: {of: audit}": "spec.canary", "exceptions: []": "spec.exceptions",
		`variables: [{name: v, expression: "values.secret"}]`: "values",
	} {
		set := templatestest.Any(t, templatestest.Namespaced("shop", "mine", adding("mine", field+", ")))
		own := set.In("shop")
		e, ok := own.Get("mine")
		if !ok || e.Err == nil || !strings.Contains(e.Err.Error(), want) || e.Required() || own.VerifiedIn(templates.Namespace{Name: "shop"}) || len(set.Required()) > 0 {
			t.Errorf("%s: %v, want a mistake about %s, and no required template", field, e.Err, want)
		}
	}
}
