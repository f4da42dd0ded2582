package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// The registration of another version, or of other settings, calls them.
func TestEveryPathOfTheVersionBeforeIsServed(t *testing.T) {
	list, err := os.ReadFile("../../webhook/testdata/paths-before.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{settings.Requested, settings.All} {
		replica, _ := testReplica(t, func(s *settings.Settings) { s.Reviews.Scope = scope })
		handlers := replica.handlers()
		for path := range strings.Lines(string(list)) {
			if path = strings.TrimSpace(path); strings.HasPrefix(path, "/") && handlers[path] == nil {
				t.Errorf("scope %s: nothing answers at %s", scope, path)
			}
		}
	}
}

// proofSet returns a set with the template of proofs and another one.
func proofSet(t *testing.T) *templates.Set {
	t.Helper()
	own := templatestest.Compile(t, string(proof.Manifest("own-proof")))
	other := templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: environment}, spec: {inject: {metadata: {labels: {a: b}}}}}")
	return templates.NewSet([]templates.Entry{{Name: own.Name(), Template: own}, {Name: other.Name(), Template: other}})
}

func TestTheTemplateOfProofsIsForItsNamespaceAndInNoList(t *testing.T) {
	set := proofSet(t)
	e, _ := set.Get(proof.Template)
	if e.AvailableTo(map[string]string{"kubernetes.io/metadata.name": "shop"}) || !e.AvailableTo(map[string]string{"kubernetes.io/metadata.name": "own-proof"}) {
		t.Errorf("the entry is %+v, want one for the proof's namespace", e)
	}
	if listed := withoutProof(set); len(listed.Entries()) != 1 || listed.Entries()[0].Name != "environment" {
		t.Errorf("the list is %v", listed.All())
	}
}

func TestNoMessageOffersTheTemplateOfProofs(t *testing.T) {
	pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pillion.dev/inject": "unknown"}}, "spec": map[string]any{}}
	out, err := injector.NewPipeline(injector.Config{}).Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Templates: proofSet(t), Namespace: templates.Namespace{Name: "shop"}})
	if err != nil || !strings.Contains(out.Message, "there are: environment (") {
		t.Errorf("%v: %s", err, out.Message)
	}
}
