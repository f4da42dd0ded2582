package injector

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// requiredResult is what a required template renders to for the required base pod. Of one that does
// not select that pod rendered is nil, and of a broken one template as well.
type requiredResult struct {
	template *templates.Template
	out      TemplateOutcome
	rendered *templates.Rendered
}

// rendering renders a template for a pod.
func (w *injection) rendering(t *templates.Template, pod map[string]any) (*templates.Rendered, error) {
	return t.Render(w.progress.ctx, templates.Input{Pod: pod, Namespace: w.request.Namespace, Cache: w.pipeline.cache})
}

// byHand refuses a pod to which templates of its namespace give something that a required template
// would have judged otherwise, had the pod's author written it by hand: a container that the
// required template extends, a field that a validation reads, a label that its match selects.
// Required templates see the base pod only. Without this the namespace's templates would get past them.
//
// It looks at the pod without what the record says, and at what of it is not believed. The plan
// stands: a template that it leaves out gives nothing.
func (w *injection) byHand() error {
	var own []merge.Fragment
	var names []string
	for _, f := range w.fragments {
		if entry, _ := w.request.Templates.Get(f.Template); entry.Namespace != "" && f.Object != nil {
			own, names = append(own, f), append(names, entry.Namespace+"/"+f.Template)
		}
	}
	if len(own) == 0 || !w.request.RequiredHere() && len(w.required) == 0 || len(w.out.Refusals) > 0 {
		return nil
	}
	if err := w.progress.next("comparing the templates of the namespace with the required ones"); err != nil {
		return err
	}
	bases := []map[string]any{w.base}
	if !reflect.DeepEqual(w.base, w.requiredBase) {
		bases = append(bases, w.requiredBase)
	}
	for i, base := range bases {
		if i > 0 {
			own = keepingPod(own)
		}
		selected, err := w.selectedByHand(base, own)
		if err != nil {
			return err
		}
		required := slices.Concat(w.required, selected)
		if len(required) == 0 {
			continue
		}
		merged, err := merge.Merge(w.progress.ctx, base, own, w.pipeline.statusKey)
		if ended := w.progress.ctx.Err(); ended != nil {
			return ended
		}
		for _, r := range required {
			same := false
			if err == nil {
				var ended error
				if same, ended = w.sameFor(r, base, merged.Pod); ended != nil {
					return ended
				}
			}
			if !same {
				w.refuseByHand(r.out, names)
			}
		}
		if len(w.out.Refusals) > 0 {
			return nil
		}
	}
	return nil
}

// selectedByHand returns required templates that do not select the pod as it is. With the labels of
// the fragments they would.
func (w *injection) selectedByHand(base map[string]any, fragments []merge.Fragment) ([]requiredResult, error) {
	var labelling []merge.Fragment
	for _, f := range fragments {
		if metadata, ok := f.Object["metadata"]; ok {
			f.Object = map[string]any{"metadata": metadata}
			labelling = append(labelling, f)
		}
	}
	if len(labelling) == 0 {
		return nil, nil
	}
	merged, err := merge.Merge(w.progress.ctx, base, labelling, w.pipeline.statusKey)
	if err != nil {
		return nil, w.progress.ctx.Err() // a conflict: the plan has refused the pod
	}
	labels := podLabels(merged.Pod)
	if maps.Equal(labels, podLabels(base)) {
		return nil, nil
	}
	decision := w.pipeline.choose(w.request, base, podLabels(base), labels)
	var selected []requiredResult
	for name := range decision.Required {
		if !w.decision.Required[name] {
			entry, _ := w.request.Templates.Get(name)
			t := choose(w.request.Templates, entry, w.request.Namespace, merged.Pod).template
			selected = append(selected, requiredResult{template: t, out: TemplateOutcome{Name: name, Hash: t.Hash(), template: t}})
		}
	}
	for _, e := range decision.Exclusions {
		was := func(o policy.Exclusion) bool { return o.Template == e.Template && o.Deny }
		if entry, _ := w.request.Templates.Get(e.Template); e.Deny && entry.Required() && !slices.ContainsFunc(w.decision.Exclusions, was) {
			selected = append(selected, requiredResult{out: TemplateOutcome{Name: e.Template}})
		}
	}
	slices.SortFunc(selected, func(a, b requiredResult) int { return strings.Compare(a.out.Name, b.out.Name) })
	return selected, nil
}

// keepingPod returns the fragments with the pod's own values kept: what is not believed of a record
// stands in the pod, changed by others since.
func keepingPod(fragments []merge.Fragment) []merge.Fragment {
	fragments = slices.Clone(fragments)
	for i := range fragments {
		fragments[i].OnConflict = merge.KeepPod
	}
	return fragments
}

// sameFor reports whether a required template says the same for two pods. The error is that of the
// context.
func (w *injection) sameFor(r requiredResult, before, after map[string]any) (bool, error) {
	t := r.template
	if t == nil {
		return false, nil
	}
	if r.rendered == nil {
		return w.passesBy(t, after)
	}
	if t.OtherSystem(before) != t.OtherSystem(after) {
		return false, nil
	}
	if err := w.progress.render(t.Name()); err != nil {
		return false, err
	}
	a := r.rendered
	if !reflect.DeepEqual(before, w.requiredBase) {
		var err error
		if a, err = w.rendering(t, before); err != nil {
			return false, w.progress.ctx.Err()
		}
	}
	b, err := w.rendering(t, after)
	if err != nil {
		return false, w.progress.ctx.Err()
	}
	return reflect.DeepEqual(a.Unmet, b.Unmet) && reflect.DeepEqual(a.Invalid, b.Invalid) &&
		reflect.DeepEqual(a.Fragment, b.Fragment) && reflect.DeepEqual(a.Files, b.Files), nil
}

// passesBy reports whether a required template gives a pod nothing, because a condition is false. The
// error is that of the context.
func (w *injection) passesBy(t *templates.Template, pod map[string]any) (bool, error) {
	if t.OtherSystem(pod) != "" {
		return false, nil // it refuses the pod
	}
	if err := w.progress.render(t.Name()); err != nil {
		return false, err
	}
	rendered, err := w.rendering(t, pod)
	if err != nil {
		return false, w.progress.ctx.Err()
	}
	return rendered.Unmet != nil, nil
}

// refuseByHand refuses the pod, whatever onError says: this is no failure of a template.
func (w *injection) refuseByHand(out TemplateOutcome, own []string) {
	out.Code, out.Asked = reason.Conflict, true
	out.Why = fmt.Sprintf("it would select, judge or extend the pod otherwise if the pod itself had what the %s gives it; write that into the pod itself, such as the container or the label, or ask the cluster's admin for a template",
		"NamespacedSidecarTemplate "+strings.Join(own, ", "))
	w.out.Templates = append(w.out.Templates, out)
	w.step(out.Name, out.Why, string(out.Code))
	w.out.Refusals = append(w.out.Refusals, out)
}
