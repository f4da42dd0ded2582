package injector

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// requiredResult is the result of comparing a pod with its required templates.
type requiredResult struct {
	required.Result
	turns []turn
	// refusals are the required templates that the pod cannot get, by the decision for its labels.
	refusals []TemplateOutcome
}

func (r requiredResult) refuses() bool {
	return len(r.refusals) > 0 || len(r.Differences) > 0 || slices.ContainsFunc(r.turns, func(t turn) bool { return t.refuses })
}

// addTo adds the required templates to a pod and to its record. An entry that an ordinary template has already
// recorded stays.
func (r requiredResult) addTo(result *apply.Result) {
	result.Pod, result.Operations = r.Pod, append(result.Operations, r.Operations...)
	w := &apply.Target{}
	for _, t := range r.turns {
		w.Add(t.outcome.Name, r.Writes[t.outcome.Name])
	}
	w.AddTo(result.Record)
}

// requiredHere returns the templates that are required of a pod by its labels, in order, and the refusals of
// those that it cannot get. The decision is the one for the labels of the original pod.
func (c *call) requiredHere(base, pod map[string]any, decision policy.Decision) (entries []templates.Entry, refusals []TemplateOutcome) {
	if labels := podLabels(pod); !maps.Equal(labels, podLabels(c.request.Pod)) {
		decision = c.decide(base, labels)
	}
	for _, o := range denied(decision) {
		if entry, _ := c.request.Templates.Get(o.Name); entry.Required() {
			refusals = append(refusals, o)
		}
	}
	for _, choice := range decision.Inject {
		if choice.Required {
			entries = append(entries, c.request.Templates.Entries()[choice.Place])
		}
	}
	return entries, refusals
}

// requireHere compares a pod with the templates that are required by its labels. It repeats the comparison if a
// required template sets a label that another one selects.
func (c *call) requireHere(base, pod map[string]any, decision policy.Decision, a applied) (requiredResult, error) {
	entries, refusals := c.requiredHere(base, pod, decision)
	for {
		r, err := c.require(base, pod, entries, a)
		if err != nil {
			return r, err
		}
		more, refused := c.requiredHere(base, r.Pod, decision)
		more = append(more, entries...)
		// A template that is required by the original labels stays required if another one removes the label,
		// so the loop ends.
		all := slices.DeleteFunc(c.request.Templates.Required(), func(e templates.Entry) bool {
			return !slices.ContainsFunc(more, func(o templates.Entry) bool { return o.Name == e.Name })
		})
		if len(all) == len(entries) && len(refused) <= len(refusals) {
			r.refusals = append(r.refusals, refusals...)
			return r, nil
		}
		entries, refusals = all, refused
	}
}

// require returns the additions of the required templates to a pod, and the differences. It never reads the
// record.
func (c *call) require(base, pod map[string]any, entries []templates.Entry, a applied) (requiredResult, error) {
	r := requiredResult{Result: required.Result{Pod: pod}, turns: make([]turn, len(entries))}
	if len(entries) == 0 {
		return r, nil
	}
	if err := c.next("comparing the pod with the required templates"); err != nil {
		return r, err
	}
	own := make([]required.Own, len(entries))
	for i, entry := range entries {
		own[i] = c.request.Templates.Own(entry, c.request.Now)
		entries[i].Template = c.versionInForce(entry, pod)
	}
	isSidecar := a.sidecars.isOfCluster(func() (map[string]any, error) {
		// The ordinary templates alone changed this pod, so their sidecars are recognized by name.
		all := c.requiredTemplates(base, entries, make([]turn, len(entries)), a.sidecars.isNamed)
		result, err := required.Required(c.ctx, merge.State{Base: base, Pod: a.pod, Writers: a.writers}, all, own)
		return result.Pod, err
	})
	result, err := required.Required(c.ctx, merge.State{Base: base, Pod: pod, Writers: a.writers}, c.requiredTemplates(base, entries, r.turns, isSidecar), own)
	if err != nil {
		code, ok := mergeCode(err)
		if !ok {
			return r, err
		}
		// The template cannot be merged into the pod. The error names it.
		r.refusals = append(r.refusals, TemplateOutcome{Code: code, Why: err.Error(), Requested: true, named: true})
		return r, nil
	}
	r.Result = result
	return r, nil
}

// requiredTemplates returns the templates for [required.Required], which store their turns in turns. isSidecar
// reports whether a container is a sidecar of a template that is not required.
func (c *call) requiredTemplates(base map[string]any, entries []templates.Entry, turns []turn, isSidecar func(map[string]any) bool) []required.Template {
	rendered := map[string]bool{} // the sidecars of required templates
	in := templates.Input{Author: base, Namespace: c.request.Namespace, IgnoreValidations: c.updates, Budget: c.budget, Sidecar: func(container map[string]any) bool {
		return rendered[nameOf(container)] || isSidecar(container)
	}}
	all := make([]required.Template, len(entries))
	for i, entry := range entries {
		all[i] = required.Template{Name: entry.Name, Render: func(pod map[string]any) (required.Rendering, error) {
			in.Pod = pod
			var err error
			if turns[i], err = c.renderRequired(entry, in); err != nil || turns[i].fragment == nil {
				return required.Rendering{}, err
			}
			addSidecars(rendered, turns[i].fragment)
			return renderingOf(turns[i].outcome.template, turns[i].fragment), nil
		}}
	}
	return all
}

// renderingOf returns the fragment of a required template, with the changes by others that it allows.
func renderingOf(version *templates.Template, f *fragment.Node) required.Rendering {
	return required.Rendering{Fragment: f, KeepPodResources: version.Spec().PodResources == v1alpha1.PodResourcesKeep, Allowed: version.Verify()}
}

// renderRequired renders a required template for a pod.
func (c *call) renderRequired(entry templates.Entry, in templates.Input) (turn, error) {
	t, rendered, err := c.render(entry, in, true)
	if err != nil {
		return turn{}, err
	}
	if t.outcome.Code == reason.OtherSystem {
		t.refuses, t.outcome.Requested, t.sentences = true, true, nil
		t.outcome.Why = fmt.Sprintf(systemRequired, t.outcome.Why)
	}
	if rendered != nil {
		t.fragment = rendered.Fragment
	}
	return t, nil
}

// versionInForce returns the version of a required template for a pod. During [templates.EditGrace] after an edit,
// a pod with the hash label of the earlier version gets that version. So an edit refuses no pod that is being
// created.
func (c *call) versionInForce(entry templates.Entry, pod map[string]any) *templates.Template {
	before := entry.Before(c.request.Now)
	if before == nil {
		return entry.Template
	}
	if podLabels(pod)[v1alpha1.HashLabel(entry.Name)] == record.ShortHash(before.Hash()) {
		return before
	}
	return entry.Template
}

// conclusion completes the turn of a required template: Injected with its writes, or Conflict with the
// differences.
func (c *call) conclusion(t turn, r required.Result, rec record.Record) turn {
	if t.refuses {
		return t
	}
	name := t.outcome.Name
	wrong := c.differenceSentence(name, r.Differences, rec)
	switch {
	case wrong != "":
		t.outcome.Code, t.outcome.Why, t.refuses = reason.Conflict, wrong, true
		t.outcome.Requested = true
		t.steps = c.step(t.steps, name, t.outcome.Why, string(t.outcome.Code))
	case t.fragment != nil:
		t.writes = r.Writes[name]
		t.outcome.Code = reason.Injected
		t.outcome.Why = t.outcome.Code.Sentence()
		t.steps = c.step(t.steps, name, conditionsMet, string(t.outcome.Code))
	}
	return t
}

func (s sidecars) isNamed(container map[string]any) bool { return s.cluster[nameOf(container)] != nil }

// isOfCluster returns a function that reports whether a container is a sidecar that templates of the cluster
// made alone in this request. A copied name or image is not enough. Completed returns the pod that these
// templates make, with the additions of the required templates.
func (s sidecars) isOfCluster(completed func() (map[string]any, error)) func(map[string]any) bool {
	t := podschema.At("spec.containers[]")
	completed = sync.OnceValues(completed)
	return func(container map[string]any) bool {
		made := s.cluster[nameOf(container)]
		if made == nil || podschema.Equal(t, privilegesOf(made), privilegesOf(container)) {
			return made != nil
		}
		pod, err := completed()
		return err == nil && slices.ContainsFunc(slices.Concat(itemsOf(pod, "initContainers"), itemsOf(pod, "containers")), func(c map[string]any) bool {
			return nameOf(c) == nameOf(container) && podschema.Equal(t, privilegesOf(c), privilegesOf(container))
		})
	}
}

// privilegesOf returns a container without the fields that the API server sets and the fields that grant no rights.
func privilegesOf(container map[string]any) map[string]any {
	container = maps.Clone(container)
	for _, name := range []string{"imagePullPolicy", "ports", "resources"} {
		delete(container, name)
	}
	container["volumeMounts"] = merge.WithoutToken(container["volumeMounts"])
	return container
}

// denied returns the exclusions of a decision that refuse the pod.
func denied(d policy.Decision) []TemplateOutcome {
	var all []TemplateOutcome
	for _, o := range d.Exclusions {
		if o.Deny {
			all = append(all, excluded(o))
		}
	}
	return all
}

func excluded(o policy.Exclusion) TemplateOutcome {
	return TemplateOutcome{Name: o.Template, Code: o.Code, Why: o.Why, Exception: o.Exception, Requested: o.Requested, named: o.Code == reason.UnknownTemplate}
}
