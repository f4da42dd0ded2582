package injector

import (
	"context"
	"fmt"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/ports"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
)

// MergeAlone merges a rendered template into a pod without other templates. It returns a [*merge.Conflict], a
// [*ports.Clash], or an error of [merge.Merge].
func MergeAlone(t *templates.Template, pod map[string]any, rendered *templates.Rendered) (map[string]any, error) {
	result, err := merge.Merge(context.Background(), merge.State{Base: pod, Pod: pod}, rendered.Fragment, mergeTemplate(TemplateOutcome{Name: t.Name(), Version: Version{template: t}}))
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

// CheckRequired reports an error if a required template renders differently for a pod that already has it,
// because such a pod could never be verified. It tries the template's sample pods, and skips a sample that the
// template cannot be rendered for or merged into.
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
		once, err := required.Required(context.Background(), merge.State{Base: sample.Pod, Pod: sample.Pod}, all, own)
		if err != nil || len(once.Differences) > 0 {
			continue
		}
		twice, err := required.Required(context.Background(), merge.State{Base: sample.Pod, Pod: once.Pod}, all, own)
		if err != nil {
			return fmt.Errorf(failsAgain, sample.Name, err)
		}
		for _, d := range append(twice.Missing, twice.Differences...) {
			return fmt.Errorf(differsAgain, sample.Name, d)
		}
	}
	return nil
}
