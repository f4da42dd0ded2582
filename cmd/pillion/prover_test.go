package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/controller/follow/followtest"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// running returns the set of a configuration whose sources have been read.
func running(t *testing.T, args ...string) *store.Templates {
	t.Helper()
	c, err := parse(t, append(args, "--namespace", "own", "--cluster-templates=false")...)
	if err != nil {
		t.Fatal(err)
	}
	r := replica{c: c, compile: templates.Options{Prefix: c.Prefix}, namespaces: namespaces.New(namespaces.Options{Client: followtest.New()}), log: slog.New(slog.DiscardHandler)}
	if err := r.readTemplates(); err != nil {
		t.Fatal(err)
	}
	set := r.set
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- set.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	for deadline := time.Now().Add(time.Minute); set.Ready() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(set.Ready())
		}
	}
	return set
}

func TestTheTemplateOfProofsIsThereWherePillionProvesAndInNoList(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want bool
	}{
		"a proof namespace":   {[]string{"--proof-namespace=own-proof"}, true},
		"another prefix":      {[]string{"--proof-namespace=own-proof", "--annotation-prefix=side.example.com"}, true},
		"no namespace for it": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := running(t, append(test.args, "--library=environment")...).Snapshot()
			if e, ok := set.Get(proof.Template); ok != test.want || ok && (e.Template == nil || e.Err != nil) {
				t.Errorf("the template is there: %t, %v; want %t", ok, e.Err, test.want)
			}
			if listed := withoutProof(set); len(listed.Entries()) != 1 || listed.Entries()[0].Name != "environment" {
				t.Errorf("the list is %v", listed.All())
			}
		})
	}
}

func TestNobodysTemplateTakesTheNameOfTheTemplateOfProofs(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: %s}\nspec: {inject: {metadata: {labels: {thief: \"1\"}}}}\n", proof.Template)
	if err := os.WriteFile(filepath.Join(dir, "thief.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set := running(t, "--proof-namespace=own-proof", "--templates="+dir).Snapshot()
	e, _ := set.Get(proof.Template)
	if e.Template == nil || e.Template.AvailableTo(map[string]string{"kubernetes.io/metadata.name": "shop"}) || !e.Template.AvailableTo(map[string]string{"kubernetes.io/metadata.name": "own-proof"}) {
		t.Errorf("the entry is %+v, want Pillion's own template", e)
	}
	if e.Err == nil || !strings.Contains(e.Err.Error(), "thief.yaml") || !strings.Contains(e.Err.Error(), proofSource) {
		t.Errorf("its error is %v, want both places", e.Err)
	}
	if listed := withoutProof(set); len(listed.Entries()) != 1 {
		t.Error("the list says nothing of the template that has no effect")
	}
	// Where nothing is proven the name is free.
	e, ok := running(t, "--templates="+dir).Snapshot().Get(proof.Template)
	if err := errors.Join(e.Err); !ok || err != nil {
		t.Errorf("without a proof namespace: %t, %v", ok, err)
	}
}

func TestNoMessageOffersTheTemplateOfProofs(t *testing.T) {
	set := running(t, "--proof-namespace=own-proof", "--library=environment").Snapshot()
	pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pillion.dev/inject": "unknown"}}, "spec": map[string]any{}}
	out, err := injector.NewPipeline(injector.Config{}).Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Templates: set, Namespace: templates.Namespace{Name: "shop"}})
	if err != nil || !strings.Contains(out.Message, "there are: environment (") {
		t.Errorf("%v: %s", err, out.Message)
	}
}
