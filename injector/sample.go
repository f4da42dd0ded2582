package injector

import (
	"context"
	"fmt"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/ports"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
)

// MergeAlone merges what a template rendered into a pod without other templates. Its error is a
// [*merge.Conflict], a [*ports.Clash], or that of a merge.
func MergeAlone(t *templates.Template, pod map[string]any, rendered *templates.Rendered) (map[string]any, error) {
	result, err := merge.Merge(context.Background(), pod, pod, rendered.Fragment, nil, mergeTemplate(TemplateOutcome{Name: t.Name(), template: t}))
	switch {
	case err != nil:
		return nil, err
	case len(result.Conflicts) > 0:
		return nil, result.Conflicts[0]
	}
	if clash := ports.Find(t.Name(), rendered.Fragment, result.Pod, nil); clash != nil {
		return nil, clash
	}
	return result.Pod, nil
}

// CheckRequired reports an error for a required template whose rendering changes when the pod already has
// it: no pod with it could be verified. The pods are the template's samples. One that the template
// cannot be rendered for, or merged into, tells nothing.
func CheckRequired(t *templates.Template) error {
	if !t.Spec().Required {
		return nil
	}
	for _, sample := range t.Samples() {
		render := func(pod map[string]any) (required.Rendering, error) {
			in := sample.Input
			in.Pod, in.Author = pod, sample.Pod
			rendered, err := t.RenderExample(in, sample.All)
			if err != nil {
				return required.Rendering{}, err
			}
			return renderingOf(t, rendered.Fragment), nil
		}
		all := []required.Template{{Name: t.Name(), Render: render}}
		own := []required.Own{templates.Entry{Template: t}.Own()}
		once, err := required.Required(context.Background(), sample.Pod, sample.Pod, all, own, nil)
		if err != nil || len(once.Differences) > 0 {
			continue
		}
		twice, err := required.Required(context.Background(), sample.Pod, once.Pod, all, own, nil)
		if err != nil {
			return fmt.Errorf("it fails for %s that has it already: %w", sample.Name, err)
		}
		for _, d := range append(twice.Missing, twice.Differences...) {
			return fmt.Errorf("rendered for %s that has it already, it says something else: %s; a required template has to say the same, or no pod could be verified", sample.Name, d)
		}
	}
	return nil
}
