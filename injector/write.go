package injector

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// write brings the pod up to date with the templates that were applied, adds what is required of it, and
// makes the patch.
func (c *call) write(base map[string]any, a *answer) error {
	if err := c.next("changing the pod"); err != nil {
		return err
	}
	pod := c.request.Pod
	result, err := apply.Apply(c.ctx, pod, a.record, a.applied.wanted)
	if err != nil {
		return err
	}
	if a.required, err = c.requireHere(base, result.Pod, a.decision, a.applied); err != nil {
		return err
	}
	for i, t := range a.required.turns {
		a.required.turns[i] = c.conclusion(t, a.required.Result, a.record)
	}
	if a.required.refuses() {
		return nil
	}
	a.required.addTo(&result)
	names := injectedNames(a.applied.turns, a.required.turns)
	if len(names) == 0 {
		return nil
	}
	for _, t := range slices.Concat(a.applied.turns, a.required.turns) {
		if slices.Contains(names, t.outcome.Name) {
			result.Record.Templates[t.outcome.Name] = t.outcome.Hash
		}
	}
	err = result.Mark(base, names)
	if err == nil {
		err = c.checkFiles(result.Pod, a.applied.turns)
	}
	if err != nil {
		return c.tooLarge(a, err)
	}
	if err := c.next("checking the patch"); err != nil {
		return err
	}
	if err := patch.Check(c.ctx, pod, result.Operations, result.Pod); err != nil {
		return err
	}
	a.pod, a.operations, a.written, a.warnings = result.Pod, result.Operations, &result.Record, result.Warnings
	return c.writePodTemplate(a)
}

// injectedNames returns the templates that gave the pod something, in order.
func injectedNames(ordinary, required []turn) []string {
	var names []string
	for _, t := range slices.Concat(ordinary, required) {
		if t.outcome.Code == reason.Injected {
			names = append(names, t.outcome.Name)
		}
	}
	return names
}

// tooLarge refuses a pod whose record, files or metadata cannot be written. It names the template with the
// largest fragment, or the one whose files are at fault.
func (c *call) tooLarge(a *answer, err error) error {
	var large *apply.TooLargeError
	var file *fileError
	var pod *merge.PodError
	out := TemplateOutcome{Asked: true, Why: err.Error()}
	switch {
	case errors.As(err, &file):
		out.Name, out.Code, out.named = file.template, file.code, true
	case errors.As(err, &large):
		if !a.record.Empty() {
			large.Prior = len(a.record.Encode())
		}
		out.Name, out.Code, out.Why = largest(a.applied.turns), reason.TemplateTooExpensive, large.Error()
	case errors.As(err, &pod):
		out.Code = reason.RenderFailed
	default:
		return fmt.Errorf("writing the record: %w", err)
	}
	a.failure = append(a.failure, out)
	return nil
}

// largest names the template that wrote most.
func largest(turns []turn) string {
	name, most := "", -1
	for _, t := range turns {
		if len(t.writes) > most {
			name, most = t.outcome.Name, len(t.writes)
		}
	}
	return name
}

// writePodTemplate brings the pod template up to date that the pod would be created of. It gets what was
// rendered for the pod. What the template's controller adds is neither in the result nor in its record.
func (c *call) writePodTemplate(a *answer) error {
	template := c.request.PodTemplate
	if template == nil {
		return nil
	}
	rec, _ := record.Parse(template) // a record that cannot be read counts as none
	base := rec.Base(template)
	w, writers := &apply.Wanted{Pod: base}, &merge.Writers{}
	for _, t := range slices.Concat(a.applied.turns, a.required.turns) {
		if t.fragment == nil {
			continue
		}
		result, err := merge.Merge(c.ctx, base, w.Pod, t.fragment, writers, mergeTemplate(t.outcome))
		if err == nil && len(result.Conflicts) > 0 {
			err = result.Conflicts[0]
		}
		if err != nil {
			return fmt.Errorf("merging template %s into the pod template: %w", t.outcome.Name, err)
		}
		w.Pod = result.Pod
		w.Add(t.outcome.Name, result.Writes)
		writers.Add(t.outcome.Name, result.Writes)
	}
	result, err := apply.Apply(c.ctx, template, rec, w)
	if err != nil {
		return err
	}
	maps.Copy(result.Record.Templates, a.written.Templates)
	if err := result.Mark(base, injectedNames(a.applied.turns, a.required.turns)); err != nil {
		return fmt.Errorf("writing the record of the pod template: %w", err)
	}
	a.podTemplate, a.templateOperations = result.Pod, result.Operations
	return patch.Check(c.ctx, template, result.Operations, result.Pod)
}

// mergeTemplate returns what the merge needs to know of a template.
func mergeTemplate(out TemplateOutcome) merge.Template {
	spec := out.template.Spec()
	return merge.Template{Name: out.Name, OnConflict: string(spec.OnConflict), Overridable: spec.Overridable, KeepPodResources: spec.PodResources == v1alpha1.PodResourcesKeep}
}
