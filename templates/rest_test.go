package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// restless are manifests with all that a template can have, and pods for which they fail.
func restless(t *testing.T) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{
		"fails": []byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: fails}\nspec:\n  order: 7\n  required: true\n  match:\n    namespaceSelector: {matchLabels: {a: b}}\n" +
			"  verify: {allow: {resources: true}}\n  matchConditions:\n  - {name: named, expression: \"pod.metadata.?name.orValue('') != 'other'\"}\n  inject:\n    metadata:\n      labels:\n        x: ${values.list[size(pod.spec.containers) - 1]}\n"),
	}
	files, err := filepath.Glob("library/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests of the library (%v)", err)
	}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// answers is what a template says to all that it can be asked.
func answers(t *testing.T, tmpl *Template) string {
	t.Helper()
	plain, err := json.Marshal([]any{tmpl.Spec(), tmpl.Parameters()})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s\n%+v\n%v\n%v\n", plain, tmpl.TextHazards(), tmpl.Verify().AllowsResources(), tmpl.Verify().AllowsImage("a:1"))
	for _, probe := range probeInputs() {
		for _, ignore := range []bool{false, true} {
			in := probe.in
			in.IgnoreConditions = ignore
			rendered, err := tmpl.Render(t.Context(), in)
			text += fmt.Sprintf("%s: %s %v\n", probe.name, withoutFacts(rendered), err)
			for _, all := range []bool{false, true} {
				rendered, err := tmpl.RenderExample(in, all)
				text += fmt.Sprintf("%s, example: %s %v\n", probe.name, withoutFacts(rendered), err)
			}
		}
	}
	return text
}

// withoutFacts shows what was rendered, without what is remembered of it.
func withoutFacts(rendered *Rendered) string {
	if rendered == nil {
		return "nothing"
	}
	shown := *rendered
	shown.Facts = nil
	return fmt.Sprintf("%+v", shown)
}

// header is what a template says without being woken.
func header(tmpl *Template) string {
	ns, pod, ok := tmpl.Match()
	return fmt.Sprint(tmpl.Name(), tmpl.Hash(), tmpl.Order(), tmpl.Policies(), ns, pod, ok, tmpl.AvailableTo(nil), tmpl.AvailableTo(map[string]string{"a": "b"}))
}

func TestATemplateAtRestAnswersAsOneThatIsAwake(t *testing.T) {
	for name, text := range restless(t) {
		t.Run(name, func(t *testing.T) {
			o := Options{Source: "t.yaml", FirstLine: 3, Values: map[string]any{"list": []any{"zero", "one"}}}
			awake, _, err := Compile(text, o)
			if err != nil {
				t.Fatal(err)
			}
			wantHeader, want := header(awake), answers(t, awake)
			resting := awake.CanRest(text, o)
			if resting.AtRest() || awake.Rest() {
				t.Error("a template is at rest that was just compiled, or that cannot rest")
			}
			if !resting.Rest() || header(resting) != wantHeader || !resting.AtRest() {
				t.Errorf("%s at rest (%v), want %s", header(resting), resting.AtRest(), wantHeader)
			}
			if diff := cmp.Diff(want, answers(t, resting)); diff != "" {
				t.Errorf("at rest it answers (-awake +at rest):\n%s", diff)
			}
			if resting.AtRest() || resting.Rest() || !resting.Rest() {
				t.Error("a template does not stay awake until it was unused for as long as from one call of Rest to the next")
			}
		})
	}
}

func TestATemplateIsWokenByManyAtOnceOnly(t *testing.T) {
	text := restless(t)["library/fluent-bit.yaml"]
	awake, _, err := Compile(text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	resting := awake.CanRest(text, Options{})
	resting.Rest()
	in := probeInputs()[0].in
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				if i == 0 {
					resting.Rest()
				}
				if r, err := resting.Render(t.Context(), in); err != nil || r.Fragment == nil {
					t.Errorf("%v (%v)", r, err)
				}
			}
		})
	}
	all.Wait()
}

// What a template is compiled from cannot change, so this is a bug, wherever it is. It may cost
// what asks for the template, and not the process.
func TestATemplateThatDoesNotCompileAgainFailsAloneAndIsTriedAgain(t *testing.T) {
	text := restless(t)["fails"]
	text = append(text, "    spec: {containers: [{name: guard, image: 'guard:1'}]}\n"...)
	o := Options{Values: map[string]any{"list": []any{"zero", "one"}}}
	awake, _, err := Compile(text, o)
	if err != nil {
		t.Fatal(err)
	}
	resting := awake.CanRest([]byte("kind: SidecarTemplate"), o)
	resting.Rest()
	wantHeader, in := header(awake), probeInputs()[0].in
	for _, render := range []func() (*Rendered, error){
		func() (*Rendered, error) { return resting.Render(t.Context(), in) },
		func() (*Rendered, error) { return resting.RenderExample(in, true) },
	} {
		out, err := render()
		var fails *RenderError
		if err == nil || errors.As(err, &fails) || !strings.Contains(err.Error(), "template fails cannot be compiled again") {
			t.Errorf("it renders %v (%v)", out, err)
		}
	}
	if n := len(resting.Parameters()) + len(resting.Mistakes(FromPod, map[string]string{"fails.pillion.dev/a": "b"})) + len(resting.TextHazards()) + len(resting.At([]string{"spec"}).Parameters); n != 0 {
		t.Errorf("%d parameters, mistakes, hazards and places", n)
	}
	if own := (Entry{Name: "fails", Template: resting}).Own(); !own.Container("guard") || !resting.Verify().AllowsResources() {
		t.Errorf("its own names are %v, and verify is %+v", own, resting.Verify())
	}
	if !resting.AtRest() || header(resting) != wantHeader {
		t.Errorf("%s (at rest: %v), want %s", header(resting), resting.AtRest(), wantHeader)
	}
	resting.origin.text = text
	if out, err := resting.Render(t.Context(), in); err != nil || out.Fragment == nil {
		t.Errorf("with its text again it renders %v (%v)", out, err)
	}
}
