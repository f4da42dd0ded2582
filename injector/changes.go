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

// written is the result of writing the templates into the pod as it is now.
type written struct {
	required requiredResult
	// change and record are empty if the pod stays as it is: record is nil then.
	change   Change
	record   *record.Record
	warnings []string
	// failure is the refusal of a record or files that are too large, which belongs to no turn. Nil for none.
	failure *TemplateOutcome
}

// write changes the pod as the applied templates need it, adds the required templates, and makes the patch.
func (c *call) write(base map[string]any, a answer) (w written, err error) {
	if err := c.next("changing the pod"); err != nil {
		return written{}, err
	}
	pod := c.request.Pod
	result, err := apply.Apply(c.ctx, pod, a.record, a.applied.target)
	if err != nil {
		return written{}, err
	}
	if w.required, err = c.requireHere(base, result.Pod, a.decision, a.applied); err != nil {
		return written{}, err
	}
	for i, t := range w.required.turns {
		w.required.turns[i] = c.conclusion(t, w.required.Result, a.record)
	}
	if w.required.refuses() {
		return w, nil
	}
	w.required.addTo(&result)
	turns := slices.Concat(a.applied.turns, w.required.turns)
	names := injectedNames(turns)
	if len(names) == 0 {
		return w, nil
	}
	for _, t := range turns {
		if slices.Contains(names, t.outcome.Name) {
			result.Record.Templates[t.outcome.Name] = t.outcome.Hash
		}
	}
	err = result.Mark(base, names)
	if err == nil {
		err = c.checkFiles(result.Pod, a.applied.turns)
	}
	if err != nil {
		w.failure, err = failureOf(err, a)
		return w, err
	}
	if err := c.next("checking the patch"); err != nil {
		return written{}, err
	}
	if err := patch.Check(c.ctx, pod, result.Operations, result.Pod); err != nil {
		return written{}, err
	}
	w.change, w.record, w.warnings = Change{Pod: result.Pod, Operations: result.Operations}, &result.Record, result.Warnings
	w.change.PodTemplate, w.change.PodTemplateOperations, err = c.writePodTemplate(turns, result.Record.Templates)
	return w, err
}

// injectedNames returns the names of the injected templates, in order.
func injectedNames(turns []turn) []string {
	var names []string
	for _, t := range turns {
		if t.outcome.Code == reason.Injected {
			names = append(names, t.outcome.Name)
		}
	}
	return names
}

// failureOf returns the refusal of a pod whose record, files or metadata cannot be written. It names the
// template that wrote most, or whose files are at fault. Any other error is Pillion's own and is returned.
func failureOf(err error, a answer) (*TemplateOutcome, error) {
	var large *apply.TooLargeError
	var file *fileError
	var pod *merge.PodError
	out := TemplateOutcome{Requested: true, Why: err.Error()}
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
		return nil, fmt.Errorf("writing the record: %w", err)
	}
	return &out, nil
}

// largest returns the name of the template with the most writes.
func largest(turns []turn) string {
	name, most := "", -1
	for _, t := range turns {
		if len(t.writes) > most {
			name, most = t.outcome.Name, len(t.writes)
		}
	}
	return name
}

// writePodTemplate merges the fragments that were rendered for the pod into the request's pod template. Hashes
// are those of the pod's record. Fields that the workload's controller sets on pods stay out of the result.
func (c *call) writePodTemplate(turns []turn, hashes map[string]string) (map[string]any, []patch.Operation, error) {
	template := c.request.PodTemplate
	if template == nil {
		return nil, nil, nil
	}
	rec, _ := record.Parse(template) // a record that cannot be read counts as none
	base := rec.Base(template)
	w, writers := &apply.Target{Pod: base}, &merge.Writers{}
	for _, t := range turns {
		if t.fragment == nil {
			continue
		}
		result, err := merge.Merge(c.ctx, merge.State{Base: base, Pod: w.Pod, Writers: writers}, t.fragment, mergeTemplate(t.outcome))
		if err == nil && len(result.Conflicts) > 0 {
			err = result.Conflicts[0]
		}
		if err != nil {
			return nil, nil, fmt.Errorf("merging template %s into the pod template: %w", t.outcome.Name, err)
		}
		w.Pod = result.Pod
		w.Add(t.outcome.Name, result.Writes)
		writers.Add(t.outcome.Name, result.Writes)
	}
	result, err := apply.Apply(c.ctx, template, rec, w)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(result.Record.Templates, hashes)
	if err := result.Mark(base, injectedNames(turns)); err != nil {
		return nil, nil, fmt.Errorf("writing the record of the pod template: %w", err)
	}
	return result.Pod, result.Operations, patch.Check(c.ctx, template, result.Operations, result.Pod)
}

// mergeTemplate returns the settings of a template that the merge reads.
func mergeTemplate(out TemplateOutcome) merge.Template {
	spec := out.template.Spec()
	return merge.Template{Name: out.Name, OnConflict: string(spec.OnConflict), Overridable: spec.Overridable, KeepPodResources: spec.PodResources == v1alpha1.PodResourcesKeep}
}
