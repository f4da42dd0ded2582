package injector

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/ports"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// applied is the base pod after all templates, with the turn of each.
type applied struct {
	pod      map[string]any
	writers  *merge.Writers
	target   *apply.Target
	sidecars sidecars
	// hidden has the author's containers and volumes that templates do not see, by path.
	hidden map[string]any
	turns  []turn
}

// turn is the result of one template.
type turn struct {
	outcome TemplateOutcome
	refuses bool // set if the pod is refused
	// sentences are warnings of the template as a whole, warnings those of single places.
	sentences []string
	warnings  []merge.Warning
	podValues []merge.PodValue
	writes    []merge.Write
	steps     []policy.Step
	fragment  *fragment.Node
	files     *templates.Files
	invalid   []string // the names of failed validations
}

func (a applied) refuses() bool {
	for _, t := range a.turns {
		if t.refuses {
			return true
		}
	}
	return false
}

// sidecars has the containers that templates added in this request, by name.
type sidecars struct {
	rendered map[string]bool
	// cluster has the containers that templates of the cluster made alone. It lacks a container that the pod's
	// author declares, or that a template of the namespace extends.
	cluster map[string]map[string]any
}

// apply applies the templates that are not required, in order, each to the pod that the earlier ones left. The
// pod lacks the own containers and volumes of required templates.
func (c *call) apply(base map[string]any, decision policy.Decision) (applied, error) {
	stripped := required.Strip(base, c.own(base))
	a := applied{hidden: hiddenItems(base, stripped), pod: stripped, writers: &merge.Writers{}, target: &apply.Target{Pod: stripped}}
	a.sidecars = sidecars{map[string]bool{}, map[string]map[string]any{}}
	for _, choice := range decision.Inject {
		if choice.Required {
			continue
		}
		name, entry := choice.Template, c.request.Templates.Entries()[choice.Place]
		if choice.Late && !selects(entry, a.pod) {
			if c.request.Explain {
				a.turns = append(a.turns, turn{outcome: TemplateOutcome{Name: name, Code: reason.NotRequested, Why: reason.NotRequested.Sentence()}})
			}
			continue
		}
		t, result, err := c.turn(base, a, entry, choice.Requested)
		if err != nil {
			return applied{}, err
		}
		a.turns = append(a.turns, t)
		if result == nil {
			continue
		}
		a.pod, a.target.Pod = result.Pod, result.Pod
		a.writers.Add(name, result.Writes)
		a.target.Add(name, result.Writes)
		a.sidecars.add(entry, t.fragment, result)
		if t.refuses {
			return a, nil
		}
	}
	return a, nil
}

// selects reports whether a template's match selects the pod by its labels.
func selects(entry templates.Entry, pod map[string]any) bool {
	_, pods, ok := entry.Match()
	return ok && pods.Matches(labels.Set(podLabels(pod)))
}

// own returns the containers and volumes of the templates that are required of a pod by its labels.
func (c *call) own(pod map[string]any) []required.Own {
	var own []required.Own
	for _, e := range c.request.Templates.Required() {
		if c.requiredIn(e) && selects(e, pod) {
			own = append(own, c.request.Templates.Own(e, c.request.Now))
		}
	}
	return own
}

// requiredIn reports whether a required template selects the namespace. It ignores the labels of pods.
func (c *call) requiredIn(e templates.Entry) bool {
	namespaces, _, ok := e.Match()
	ns := c.request.Namespace.Labels
	return ok && !e.Suspended() && e.AvailableTo(ns) && namespaces.Matches(labels.Set(ns))
}

// turn renders a template for the pod after the earlier templates, and merges it. The result is nil if the
// template adds nothing.
func (c *call) turn(base map[string]any, a applied, entry templates.Entry, asked bool) (turn, *merge.Result, error) {
	t, rendered, err := c.render(entry, templates.Input{Pod: a.pod, Author: base, Namespace: c.request.Namespace, Budget: c.budget, Sidecar: a.sidecars.has}, asked)
	if err != nil || rendered == nil || rendered.Fragment == nil {
		return t, nil, err
	}
	if err := c.next("merging the template " + entry.Name); err != nil {
		return turn{}, nil, err
	}
	result, err := merge.Merge(c.ctx, merge.State{Base: base, Pod: a.pod, Writers: a.writers}, rendered.Fragment, mergeTemplate(t.outcome))
	if err == nil {
		compareHidden(a.hidden, entry.Name, &result)
	}
	if err == nil && len(result.Conflicts) > 0 {
		err = result.Conflicts[0]
	}
	if err == nil && rendered.Files != nil {
		err = c.checkFilesOf(entry.Name, rendered.Files, result.Pod)
	}
	if err == nil {
		if clash := ports.Find(entry.Name, rendered.Fragment, result.Pod, a.writers); clash != nil {
			number, _, _ := strings.Cut(clash.Port, "/")
			clash.Advice = t.outcome.template.PortAdvice(number, rendered.Params)
			err = clash
		}
	}
	if err != nil {
		code, ok := mergeCode(err)
		if !ok {
			return turn{}, nil, fmt.Errorf("merging template %s: %w", entry.Name, err)
		}
		t.outcome.Code, t.outcome.Why, t.outcome.named = code, err.Error(), true
		return c.failed(t), nil, nil
	}
	t.fragment, t.files, t.writes, t.warnings, t.podValues = rendered.Fragment, rendered.Files, result.Writes, result.Warnings, result.PodValues
	t.sentences = append(t.sentences, jobWarnings(base, entry.Name, result.Writes)...)
	t.sentences = append(t.sentences, userWarnings(result.Pod, entry.Name, result.Writes)...)
	if writesAny(result.Writes) {
		t.outcome.Code = reason.Injected
	}
	t.outcome.Why = t.outcome.Code.Sentence()
	t.steps = c.step(t.steps, entry.Name, conditionsMet, string(t.outcome.Code))
	return t, &result, nil
}

// hiddenItems returns the containers and volumes of a pod that a stripped one lacks, by their paths.
func hiddenItems(pod, stripped map[string]any) map[string]any {
	hidden := map[string]any{}
	spec := (*podschema.Path)(nil).Field("spec")
	for _, list := range []string{"initContainers", "containers", "volumes"} {
		items, left := itemsOf(pod, list), itemsOf(stripped, list)
		if len(items) == len(left) {
			continue
		}
		seen := map[string]bool{}
		for _, item := range left {
			seen[nameOf(item)] = true
		}
		for _, item := range items {
			if name := nameOf(item); !seen[name] {
				hidden[spec.Field(list).Key("name="+name).String()] = item
			}
		}
	}
	return hidden
}

// compareHidden reports a conflict if a template adds a container or volume whose name an author's item has, too. The
// template does not see that item, because its name belongs to a required template.
func compareHidden(hidden map[string]any, template string, r *merge.Result) {
	if len(hidden) == 0 {
		return
	}
	for i, w := range r.Writes {
		if w.Effect != merge.Added {
			continue
		}
		switch there := hidden[w.Path.String()]; {
		case there == nil:
		case podschema.Equal(w.Type, there, w.Value):
			r.Writes[i].Effect = merge.Same
		default:
			r.Conflicts = append(r.Conflicts, &merge.Conflict{Template: template, Path: w.Path, Stands: there, Wants: w.Value})
		}
	}
}

// render renders a template for a pod. It stops at a false condition or validation. The rendered fragment is
// nil if the template adds nothing.
func (c *call) render(entry templates.Entry, in templates.Input, asked bool) (turn, *templates.Rendered, error) {
	v := c.version(entry, in.Pod)
	t := turn{steps: v.steps}
	t.outcome = TemplateOutcome{Name: entry.Name, Version: v.Version, Requested: asked}
	if v.warning != "" {
		t.sentences = append(t.sentences, v.warning)
	}
	if why := v.template.OtherSystem(in.Pod); why != "" {
		return c.otherSystem(t, why), nil, nil
	}
	if err := c.nextRender(entry.Name); err != nil {
		return turn{}, nil, err
	}
	rendered, err := v.template.Render(c.ctx, in)
	if err != nil {
		if t.outcome.Code = renderCode(err); t.outcome.Code == reason.InternalError {
			return turn{}, nil, fmt.Errorf("rendering template %s: %w", entry.Name, err)
		}
		t.outcome.Why, t.outcome.named = err.Error(), true
		return c.failed(t), nil, nil
	}
	t.outcome.Params, t.outcome.Origins = rendered.Params, rendered.Origins
	if unmet := rendered.Unmet; unmet != nil {
		t.outcome.Code, t.outcome.Why = reason.ConditionFalse, fmt.Sprintf(conditionFalse, unmet.Name)
		if unmet.Message != "" {
			t.outcome.Why = fmt.Sprintf(conditionMessage, unmet.Name, unmet.Message)
		}
		t.steps = c.step(t.steps, entry.Name, "matchCondition "+unmet.Name, string(reason.ConditionFalse)+": "+unmet.Message)
		if asked {
			t.sentences = append(t.sentences, t.outcome.Warning())
		}
		return t, nil, nil
	}
	if len(rendered.Invalid) > 0 {
		t = c.invalid(t, rendered.Invalid)
		if rendered.Fragment == nil {
			return t, nil, nil
		}
		return t, rendered, nil
	}
	t.outcome.Code = reason.NothingToInject
	if rendered.Fragment == nil {
		t.outcome.Why = t.outcome.Code.Sentence()
		t.steps = c.step(t.steps, entry.Name, conditionsMet, string(t.outcome.Code))
		if asked {
			t.sentences = append(t.sentences, t.outcome.Warning())
		}
	}
	return t, rendered, nil
}

// otherSystem completes the turn of a template for another operating system.
func (c *call) otherSystem(t turn, why string) turn {
	t.outcome.Code, t.outcome.Why = reason.OtherSystem, why
	t.steps = c.step(t.steps, t.outcome.Name, "operating system", string(reason.OtherSystem)+": "+why)
	if t.outcome.Requested {
		t.sentences = append(t.sentences, t.outcome.Warning())
	}
	return t
}

// invalid refuses a pod because of failed validations. onError does not apply: the template itself has not
// failed.
func (c *call) invalid(t turn, invalid []templates.Invalid) turn {
	messages := make([]string, len(invalid))
	for i, v := range invalid {
		messages[i], t.invalid = v.Message, append(t.invalid, v.Name)
		t.steps = c.step(t.steps, t.outcome.Name, "validation "+v.Name, string(reason.ValidationFailed)+": "+v.Message)
	}
	t.outcome.Code, t.outcome.Why, t.outcome.Requested = reason.ValidationFailed, strings.Join(messages, "; "), true
	t.refuses = true
	return t
}

// failed applies a template's onError.
func (c *call) failed(t turn) turn {
	t.outcome.Requested = true
	t.steps = c.step(t.steps, t.outcome.Name, t.outcome.Why, string(t.outcome.Code))
	if t.outcome.template.Spec().OnError == v1alpha1.ErrorSkip {
		t.sentences = append(t.sentences, t.outcome.Warning())
	} else {
		t.refuses = true
	}
	return t
}

func writesAny(writes []merge.Write) bool {
	for _, w := range writes {
		if w.Effect != merge.Same {
			return true
		}
	}
	return false
}

// mergeCode returns the reason code for an error of a merge. It reports false for a fault of Pillion's own.
func mergeCode(err error) (reason.Code, bool) {
	var conflict *merge.Conflict
	var clash *ports.Clash
	var fault *merge.FragmentError
	var pod *merge.PodError
	var file *fileError
	switch {
	case errors.As(err, &conflict), errors.As(err, &clash):
		return reason.Conflict, true
	case errors.As(err, &file):
		return file.code, true
	case errors.As(err, &fault), errors.As(err, &pod):
		return reason.RenderFailed, true
	}
	return "", false
}

func renderCode(err error) reason.Code {
	var parameter *templates.ParameterError
	var render *templates.RenderError
	switch {
	case errors.As(err, &parameter):
		return reason.BadParameter
	case errors.As(err, &render) && render.TooExpensive:
		return reason.TemplateTooExpensive
	case render != nil:
		return reason.RenderFailed
	default:
		return reason.InternalError
	}
}

// step adds a rule for a request that says Explain.
func (c *call) step(steps []policy.Step, template, input, result string) []policy.Step {
	if !c.request.Explain {
		return steps
	}
	return append(steps, policy.Step{Rule: "template " + template, Template: template, Input: input, Result: result})
}

func (s sidecars) add(entry templates.Entry, f *fragment.Node, result *merge.Result) {
	addSidecars(s.rendered, f)
	for _, w := range result.Writes {
		path := w.Path.Segments()
		if len(path) < 3 || path[1] != "initContainers" && path[1] != "containers" || w.Effect == merge.Same {
			continue
		}
		name := strings.TrimPrefix(path[2], "name=")
		// An author's container that moves to its position stays the author's.
		whole := len(path) == 3 && w.Value != nil && len(w.RemovedItems) == 0
		if _, made := s.cluster[name]; made || whole {
			s.cluster[name], _ = podschema.LookUp(result.Pod, path[:3]).(map[string]any)
		}
		if entry.Namespace != "" {
			delete(s.cluster, name)
		}
	}
}

// addSidecars adds the names of the containers with an image that a fragment has.
func addSidecars(names map[string]bool, f *fragment.Node) {
	for _, list := range []string{"initContainers", "containers"} {
		for _, it := range f.Field("spec", list).List() {
			if it.IsSidecar() {
				names[strings.TrimPrefix(it.Key, "name=")] = true
			}
		}
	}
}

// has reports whether a container is a sidecar that a template before gave the pod.
func (s sidecars) has(container map[string]any) bool { return s.rendered[nameOf(container)] }
