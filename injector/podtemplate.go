package injector

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
)

// applyToTemplate brings the pod template up to date that the pod would be created of. It
// gets what was rendered for the pod. What the template's controller adds is neither in the
// result nor in its record.
func (w *injection) applyToTemplate(rec record.Record) error {
	template := w.request.PodTemplate
	if template == nil {
		return nil
	}
	plan, err := merge.Merge(w.progress.ctx, rec.Base(template), w.fragments, w.pipeline.statusKey)
	if err != nil {
		return fmt.Errorf("planning the changes of the pod template: %w", err)
	}
	result, err := apply.Apply(w.progress.ctx, template, rec, plan, w.pipeline.statusKey)
	if err != nil {
		return fmt.Errorf("applying the plan to the pod template: %w", err)
	}
	w.out.PodTemplate, w.out.PodTemplateOperations = result.Pod, result.Operations
	return patch.Check(w.progress.ctx, template, result.Operations, result.Pod)
}
