package main

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

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
