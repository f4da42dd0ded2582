package injector

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// requiredResult is what a required template renders to for the required base pod.
type requiredResult struct {
	template *templates.Template
	out      TemplateOutcome
	rendered *templates.Rendered
}

// rendering renders a template for a pod.
func (w *injection) rendering(t *templates.Template, pod map[string]any) (*templates.Rendered, error) {
	return t.Render(w.work.ctx, templates.Input{Pod: pod, Namespace: w.request.Namespace, Kubernetes: w.request.Kubernetes, Cache: w.pipeline.cache})
}

// byHand refuses a pod to which templates of its namespace give something that a required template
// would have judged otherwise, had the pod's author written it by hand: a container that the
// required template extends, a field that a validation reads. Required templates see the base pod
// only, so that the namespace's templates would otherwise get past them.
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
	if len(own) == 0 || len(w.required) == 0 || len(w.out.Refusals) > 0 {
		return nil
	}
	if err := w.work.next("comparing the templates of the namespace with the required ones"); err != nil {
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
		merged, err := merge.Merge(w.work.ctx, base, own, w.pipeline.statusKey)
		if ended := w.work.ctx.Err(); ended != nil {
			return ended
		}
		for _, r := range w.required {
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
	if t.OtherSystem(before) != t.OtherSystem(after) {
		return false, nil
	}
	if err := w.work.render(t.Name()); err != nil {
		return false, err
	}
	a := r.rendered
	if !reflect.DeepEqual(before, w.requiredBase) {
		var err error
		if a, err = w.rendering(t, before); err != nil {
			return false, w.work.ctx.Err()
		}
	}
	b, err := w.rendering(t, after)
	if err != nil {
		return false, w.work.ctx.Err()
	}
	return reflect.DeepEqual(a.Unmet, b.Unmet) && reflect.DeepEqual(a.Invalid, b.Invalid) &&
		reflect.DeepEqual(a.Fragment, b.Fragment) && reflect.DeepEqual(a.Files, b.Files), nil
}

// refuseByHand refuses the pod, whatever onError says: this is no failure of a template.
func (w *injection) refuseByHand(out TemplateOutcome, own []string) {
	out.Code, out.Asked = reason.Conflict, true
	out.Why = fmt.Sprintf("it would judge or extend the pod otherwise if the pod itself had what the %s gives it; write that into the pod itself, such as the container, or ask the cluster's admin for a template",
		"NamespacedSidecarTemplate "+strings.Join(own, ", "))
	w.out.Templates = append(w.out.Templates, out)
	w.step(out.Name, out.Why, string(out.Code))
	w.out.Refusals = append(w.out.Refusals, out)
}
