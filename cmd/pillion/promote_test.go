package main

import (
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/rollout"
	"github.com/pillion-dev/pillion/templates"
)

// Pillion writes the status of a template at any time, which no promotion has to heed. What somebody else
// writes it has to. A fake, since no API server writes between two requests when it is told to.
func TestAPromotionGoesOnIfOnlyTheStatusChanged(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}
	template := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate",
			"metadata": map[string]any{"name": name, "uid": name, "generation": int64(1), "resourceVersion": "1"}, "spec": map[string]any{},
		}}
	}
	type change = func(*unstructured.Unstructured)
	status := func(o *unstructured.Unstructured) { o.Object["status"] = map[string]any{"hash": "abc"} }
	for name, c := range map[string]struct {
		verb   string
		change change
		fails  string
	}{
		"the template's status": {"update", status, ""},
		"the canary's status":   {"delete", status, ""},
		"the template's labels": {"update", func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"by": "another"}) }, "nothing is written"},
		"the template's spec":   {"update", func(o *unstructured.Unstructured) { o.SetGeneration(2) }, "nothing is written"},
		"the canary's notes":    {"delete", func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"by": "another"}) }, "and stays"},
		"another template":      {"update", func(o *unstructured.Unstructured) { o.SetUID("another") }, "nothing is written"},
	} {
		stable, canary := template("logs"), template("logs-next")
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "SidecarTemplateList"}, stable.DeepCopy(), canary.DeepCopy())
		changed := false
		client.PrependReactor(c.verb, "sidecartemplates", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if changed {
				return false, nil, nil
			}
			changed = true
			now := map[string]*unstructured.Unstructured{"update": stable, "delete": canary}[c.verb].DeepCopy()
			c.change(now)
			now.SetResourceVersion("2")
			if err := client.Tracker().Update(resource, now, ""); err != nil {
				t.Fatal(err)
			}
			return true, nil, apierrors.NewConflict(resource.GroupResource(), now.GetName(), nil)
		})
		err := rollout.Promote(t.Context(), io.Discard, client.Resource(resource), canary.DeepCopy(), stable.DeepCopy())
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
		if _, err := client.Resource(resource).Get(t.Context(), "logs-next", metav1.GetOptions{}); apierrors.IsNotFound(err) != (c.fails == "") {
			t.Errorf("%s: the canary afterwards: %v", name, err)
		}
	}
}

// The next upgrade would take the change back.
func TestATemplateOfAHelmReleaseIsNotPromotedByHand(t *testing.T) {
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": name}, "spec": map[string]any{}}}
	}
	stable, canary := object("logs"), object("logs-next")
	stable.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "pillion"})
	stable.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
	p := promoteCommand{output: "yaml"}
	err := rollout.Promote(t.Context(), io.Discard, nil, canary, stable) // without a client: it asks the API server nothing
	if want := "change the chart's value templates.logs; pillion promote logs-next -o yaml prints"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	var out strings.Builder
	if err := p.print(&out, stable); err != nil || strings.Contains(strings.ToLower(out.String()), "helm") {
		t.Errorf("%v: what is printed for the values has the release's own keys:\n%s", err, &out)
	}
}

func TestAPromotionKeepsWhatTheStableTemplateSaysOfItsPods(t *testing.T) {
	code, out, errs := call(t, "", nil, "promote", "logs-next", "-o=yaml", "--templates=testdata/promote")
	promoted, _, err := templates.Compile([]byte(out), templates.Options{})
	if code != exitDone || err != nil {
		t.Fatalf("exit code %d %s %v\n%s", code, errs, err, out)
	}
	spec := promoted.Spec()
	if promoted.Name() != "logs" || spec.Canary != nil || !spec.Required || spec.Order != 7 || spec.Match == nil || spec.Description != "the new one" ||
		!strings.Contains(string(spec.Inject), "logs:2") || !strings.Contains(out, "team: platform") {
		t.Errorf("promoted:\n%s", out)
	}
	for args, want := range map[string]string{
		"promote logs -o=yaml --templates=testdata/promote":         "is no canary",
		"promote logs-bad -o=yaml --templates=testdata/promote":     "spec.overridable",
		"promote logs-all -o=yaml --templates=testdata/promote":     "spec.canary.percent",
		"promote logs-of-next -o=yaml --templates=testdata/promote": "is a canary itself",
		"promote nothing -o=yaml --templates=testdata/promote":      "there is no template nothing",
		"promote logs-next --templates=testdata/promote":            "add -o yaml",
		"promote logs-next -o=text":                                 "allowed are yaml, json",
		"promote":                                                   "takes the name of one canary",
	} {
		code, out, errs := call(t, "", nil, strings.Fields(args)...)
		if code == exitDone || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d %s %s, want %q", args, code, out, errs, want)
		}
	}
	// A canary of a template of the library, which no file has.
	if code, out, errs := call(t, "", nil, "promote", "shipper", "-o=yaml", "--templates=testdata/promote"); code != exitDone || !strings.Contains(out, "name: fluent-bit") {
		t.Errorf("exit code %d %s %s", code, out, errs)
	}
}
