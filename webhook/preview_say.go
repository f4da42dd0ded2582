package webhook

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/keys"
)

// telling gathers what a preview says about one object.
type telling struct {
	// about is the object, such as "Deployment web", and name its name.
	about, name string
	review      *Review
	warnings    []string
}

func (t *telling) say(text string) { t.warnings = append(t.warnings, text) }

// pods adds sentences about the object's pods.
func (t *telling) pods(texts ...string) {
	subject := "pods of " + t.about
	if t.review.Kind.Kind == "Pod" {
		subject = t.about
	}
	for _, text := range texts {
		t.say(subject + ": " + text)
	}
}

// outcome adds why the pods are refused, and the warnings that whoever creates them gets.
func (t *telling) outcome(out injector.Outcome) {
	for _, refusal := range out.Refusals {
		t.say("pods of " + t.about + " are refused: " + refusal.Sentence() + " (" + string(refusal.Code) + ")")
	}
	if !t.review.DryRun && out.Command != "" { // the cluster does not have what a dry run tries
		t.say("for details run: " + out.Command)
	}
	t.pods(out.Warnings...)
}

// exists reports whether the object is there once the write is done, so that a command finds it.
func (t *telling) exists() bool { return !t.review.DryRun || t.review.Operation != "CREATE" }

// workloadKeys adds findings about the workload's own metadata, and the command that moves
// what belongs to its pods.
func (t *telling) workloadKeys(found []keys.Finding) {
	for _, f := range found {
		t.say(t.about + ": " + f.String())
	}
	if !t.exists() {
		return
	}
	move := func(found ...keys.Finding) bool {
		command := keys.Move(t.review.Kind.Kind, t.review.Namespace, t.name, found)
		if command == "" || utf8.RuneCountInString(command) > maxWarning || command != printable(command) {
			return false // what cannot be copied as it stands is no help
		}
		t.warnings = append(t.warnings, command)
		return true
	}
	if move(found...) {
		return
	}
	for _, f := range found {
		move(f)
	}
}

// nameOf returns the name of an object, or the beginning of the one that it will get.
func nameOf(object unstructured.Unstructured) string {
	return cmp.Or(object.GetName(), object.GetGenerateName())
}

// namedBy returns the templates whose parameters the annotations have, in order.
func namedBy(annotations map[string]string) []string {
	named := map[string]bool{}
	for key := range annotations {
		if template, _, ok := keys.Under(key); ok && template != "" {
			named[template] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}
