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

// warningList collects the warnings of a preview about one object.
type warningList struct {
	// subject is the object, such as "Deployment web", and name its name.
	subject, name string
	review        *Review
	warnings      []string
}

func (w *warningList) add(text string) { w.warnings = append(w.warnings, text) }

// addForPods adds warnings about the object's pods.
func (w *warningList) addForPods(texts ...string) {
	subject := "pods of " + w.subject
	if w.review.Kind.Kind == "Pod" {
		subject = w.subject
	}
	for _, text := range texts {
		w.add(subject + ": " + text)
	}
}

// addOutcome adds the refusals and warnings that the creator of the pods would get.
func (w *warningList) addOutcome(out injector.Outcome) {
	for _, refusal := range out.Refusals {
		w.add("pods of " + w.subject + " are refused: " + refusal.Sentence() + " (" + string(refusal.Code) + ")")
	}
	if !w.review.DryRun && out.Command != "" { // the object of a dry run does not exist
		w.add("for details run: " + out.Command)
	}
	w.addForPods(out.Warnings...)
}

// isStored reports whether the object exists after the write, so that a command can name it.
func (w *warningList) isStored() bool { return !w.review.DryRun || w.review.Operation != "CREATE" }

// addWorkloadKeys adds findings about the workload's own metadata, and the command that moves
// keys to the pod template.
func (w *warningList) addWorkloadKeys(found []keys.Finding) {
	for _, f := range found {
		w.add(w.subject + ": " + f.String())
	}
	if !w.isStored() {
		return
	}
	move := func(found ...keys.Finding) bool {
		command := keys.Move(w.review.Kind.Kind, w.review.Namespace, w.name, found)
		if command == "" || utf8.RuneCountInString(command) > maxWarning || command != printable(command) {
			return false // such a command cannot be copied from the warning
		}
		w.warnings = append(w.warnings, command)
		return true
	}
	if move(found...) {
		return
	}
	for _, f := range found {
		move(f)
	}
}

// nameOf returns the name of an object, or its generateName.
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
