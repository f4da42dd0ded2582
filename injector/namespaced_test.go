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

// manifestOf returns a template of a kind that adds a container of its name.
func manifestOf(kind, namespace, name, fields string) string {
	metadata := "{name: " + name + "}"
	if namespace != "" {
		metadata = "{name: " + name + ", namespace: " + namespace + "}"
	}
	return fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: %s\nmetadata: %s\nspec:\n%s", kind, metadata, fields)
}

func sidecar(name string) string {
	return "  inject: {spec: {containers: [{name: " + name + ", image: \"registry.example.com/" + name + ":1\"}]}}\n"
}

// setOf compiles templates of both kinds. A broken one is an entry with its error.
func setOf(t *testing.T, manifests ...string) *templates.Set {
	t.Helper()
	var entries []templates.Entry
	for _, m := range manifests {
		e := templates.Entry{}
		compiled, _, err := templates.Compile([]byte(m), templates.Options{Values: map[string]any{"secret": "s"}})
		if err != nil {
			mistakes := err.(*templates.CompileError)
			e.Name, e.Namespace, e.Err = mistakes.Template, mistakes.Scope.Namespace, err
		} else {
			e.Name, e.Namespace, e.Template = compiled.Name(), compiled.Scope().Namespace, compiled
		}
		entries = append(entries, e)
	}
	return templates.NewSet(entries)
}

const namespaced = "NamespacedSidecarTemplate"

func injectInto(t *testing.T, set *templates.Set, namespace, ask string) injector.Outcome {
	t.Helper()
	annotations := map[string]any{}
	if ask != "" {
		annotations["pillion.dev/inject"] = ask
	}
	out, err := injector.NewPipeline(injector.Config{}).Inject(context.Background(), injector.Request{
		Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: namespace},
		Pod: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "annotations": annotations},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "registry.example.com/app:1"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// containers are the names of the pod's containers and init containers, in order.
func containers(out injector.Outcome) string {
	spec := out.Pod["spec"].(map[string]any)
	var names []string
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, c := range items {
			names = append(names, c.(map[string]any)["name"].(string))
		}
	}
	return strings.Join(names, " ")
}

func TestATemplateOfANamespaceIsForItsOwnPods(t *testing.T) {
	set := setOf(t,
		manifestOf("SidecarTemplate", "", "shared", "  order: 5\n"+sidecar("shared")),
		manifestOf("SidecarTemplate", "", "taken", sidecar("of-the-cluster")),
		manifestOf(namespaced, "shop", "named", "  order: -9\n"+sidecar("named")),
		manifestOf(namespaced, "shop", "default", "  injectByDefault: true\n"+sidecar("default")),
		manifestOf(namespaced, "shop", "taken", "  match: {}\n"+sidecar("of-the-team")),
		manifestOf(namespaced, "pay", "matching", "  match: {podSelector: {}}\n"+sidecar("matching")),
		manifestOf(namespaced, "pay", "named", sidecar("of-pay")))
	for _, c := range []struct {
		namespace, ask, want string
		code                 reason.Code
	}{
		{"shop", "", "app", reason.NotRequested}, // what matches is shadowed
		{"shop", "named,shared", "app named shared", reason.Injected},
		{"shop", "true", "app default", reason.Injected},
		{"shop", "taken", "app of-the-cluster", reason.Injected},
		{"shop", "matching", "app", reason.UnknownTemplate},
		{"pay", "", "app matching", reason.Injected},
		{"pay", "+named", "app matching of-pay", reason.Injected},
		{"pay", "default", "app", reason.UnknownTemplate},
		{"other", "named", "app", reason.UnknownTemplate},
		{"other", "true", "app", reason.NotRequested},
		{"other", "", "app", reason.NotRequested},
	} {
		out := injectInto(t, set, c.namespace, c.ask)
		if got := containers(out); got != c.want || out.Code != c.code {
			t.Errorf("in %s asking for %q the pod has %s (%s), want %s (%s)", c.namespace, c.ask, got, out.Code, c.want, c.code)
		}
		for _, o := range out.Templates {
			if own := !strings.HasPrefix(o.Name, "shared") && o.Name != "taken" && o.Code != reason.UnknownTemplate; o.Namespaced != own {
				t.Errorf("in %s the template %s counts as the namespace's own: %v", c.namespace, o.Name, o.Namespaced)
			}
		}
	}
}

// The message says who can resume a template.
func TestASuspendedTemplateSaysWhoSuspendedIt(t *testing.T) {
	set := setOf(t,
		manifestOf("SidecarTemplate", "", "shared", "  suspend: true\n"+sidecar("shared")),
		manifestOf(namespaced, "shop", "own", "  suspend: true\n"+sidecar("own")),
		manifestOf(namespaced, "shop", "broken", "  suspend: true\n  nome: x\n"+sidecar("broken")))
	for name, want := range map[string]string{
		"shared": "the cluster's admin has suspended it", "own": "NamespacedSidecarTemplate shop/own is suspended", "broken": "NamespacedSidecarTemplate shop/broken is suspended",
	} {
		out := injectInto(t, set, "shop", name)
		if o := out.Templates[0]; o.Code != reason.Suspended || !strings.Contains(o.Why, want) || name != "shared" && strings.Contains(o.Why, "admin") {
			t.Errorf("%s: %s: %s", name, o.Code, o.Why)
		}
	}
}

// A template of a namespace changes nothing of what a required template gives to its pods, or the
// pod is refused.
func TestATemplateOfANamespaceTakesNothingFromARequiredOne(t *testing.T) {
	required := manifestOf("SidecarTemplate", "", "audit", `  required: true
  match: {}
  inject:
    spec:
      initContainers: [{name: audit, $position: First, image: "registry.example.com/audit:1", restartPolicy: Always, volumeMounts: [{name: log, mountPath: /log}]}]
      containers: [{$each: App, env: [{name: AUDIT, value: "on"}]}]
      volumes: [{name: log, emptyDir: {}}]
`)
	plain := injectInto(t, setOf(t, required), "shop", "")
	want := fmt.Sprint(plain.Pod["spec"].(map[string]any)["initContainers"].([]any)[0])
	for _, hostile := range []string{
		`initContainers: [{name: mine, $position: First, image: "x.example.com/y:1"}]`,
		`initContainers: [{name: mine, $position: {before: audit}, image: "x.example.com/y:1"}]`,
		`initContainers: [{name: audit, $onConflict: Overwrite, image: "x.example.com/y:1"}]`,
		`initContainers: [{name: audit, image: "x.example.com/y:1"}]`,
		`initContainers: [{name: audit, $patch: delete}]`,
		`initContainers: [{name: audit, env: [{name: LD_PRELOAD, value: /x}]}]`,
		`initContainers: [{$patch: replace}]`,
		`initContainers: [{$each: Init, command: [x]}]`,
		`containers: [{name: audit, image: "x.example.com/y:1"}]`,
		`containers: [{$each: All, env: [{name: AUDIT, $onConflict: Overwrite, value: "off"}]}]`,
		`containers: [{$each: App, env: [{name: AUDIT, $patch: delete}]}]`,
		`containers: [{$each: App, env: [{name: AUDIT, $append: ",", value: "off"}]}]`,
		`volumes: [{name: log, hostPath: {path: /}}]`,
		`volumes: [{name: log, $onConflict: Overwrite, hostPath: {path: /}}]`,
		`volumes: [{name: log, $patch: delete}]`,
	} {
		own := manifestOf(namespaced, "shop", "hostile", "  match: {}\n  order: -100\n  inject: {spec: {"+hostile+"}}\n")
		out := injectInto(t, setOf(t, required, own), "shop", "")
		if !out.Allowed {
			continue
		}
		spec := out.Pod["spec"].(map[string]any)
		inits, _ := spec["initContainers"].([]any)
		if len(inits) == 0 || fmt.Sprint(inits[0]) != want || !strings.Contains(fmt.Sprint(spec["containers"]), "name:AUDIT value:on") || fmt.Sprint(spec["volumes"]) != "[map[emptyDir:map[] name:log]]" {
			t.Errorf("%s: the pod is admitted with init containers %v, containers %v, volumes %v", hostile, inits, spec["containers"], spec["volumes"])
		}
	}
}

func TestATemplateOfANamespaceHasNoFieldThatReachesBeyond(t *testing.T) {
	for field, want := range map[string]string{
		"required: true":                 "spec.required",
		"availableTo: {}":                "spec.availableTo",
		"verify: {images: [a]}":          "spec.verify",
		"match: {namespaceSelector: {}}": "spec.match.namespaceSelector",
		"canary: {of: audit}":            "spec.canary",
		"exceptions: []":                 "spec.exceptions",
		`variables: [{name: v, expression: "values.secret"}]`: "values",
	} {
		manifest := manifestOf(namespaced, "shop", "mine", "  "+field+"\n  match: {podSelector: {}}\n"+sidecar("mine"))
		if strings.HasPrefix(field, "match") {
			manifest = manifestOf(namespaced, "shop", "mine", "  "+field+"\n"+sidecar("mine"))
		}
		set := setOf(t, manifest)
		e, ok := set.In("shop").Get("mine")
		if !ok || e.Err == nil || !strings.Contains(e.Err.Error(), want) {
			t.Errorf("%s: %v, want a mistake about %s", field, e.Err, want)
		}
		if own := set.In("shop"); e.Required() || own.VerifiedIn(templates.Namespace{Name: "shop"}) || len(set.Required()) > 0 {
			t.Errorf("%s: the broken template counts as required", field)
		}
	}
}
