package injector

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
)

// chosen is the version of a template that a pod gets.
type chosen struct {
	template *templates.Template
	// canary is the name of the canary that it is, "" for the stable template.
	canary string
}

// choose returns the version of a template that a pod of a namespace gets: that of the first canary
// by name that selects the pod, else the stable one. Of the pod it reads labels, name and owner.
//
// All that it reads of the pod is its author's to write. So an author can choose the version by labels and
// owners, as far as namespaceSelector lets them: of a required template each version is as required
// as the other.
func choose(set *templates.Set, stable templates.Entry, ns templates.Namespace, pod map[string]any) chosen {
	canaries := set.CanariesOf(stable.Name)
	if len(canaries) == 0 {
		return chosen{template: stable.Template}
	}
	labels := podLabels(pod)
	share := func() int { return owner.Share(ns.Name, owner.Topmost(pod)) }
	for _, c := range canaries {
		if c.Selects(ns.Labels, labels, share) {
			return chosen{c.Version, c.Name}
		}
	}
	return chosen{template: stable.Template}
}

// version returns the version of a template that was decided to be injected.
func (w *injection) version(name string) chosen {
	if v, ok := w.versions[name]; ok {
		return v
	}
	stable, _ := w.request.Templates.Get(name)
	pod := w.base
	if stable.Required() {
		pod = w.requiredBase
	}
	v := choose(w.request.Templates, stable, w.request.Namespace, pod)
	if w.versions == nil {
		w.versions = map[string]chosen{}
	}
	w.versions[name] = v
	w.warnOfUnknownShare(name, pod)
	w.explainVersion(name, v, pod)
	return v
}

// warnOfUnknownShare says of what is no pod yet that nobody knows whether it gets a canary: a file tells
// the workload of kinds whose controllers are known.
func (w *injection) warnOfUnknownShare(name string, pod map[string]any) {
	if owner.Topmost(pod).Name != "" {
		return
	}
	for _, c := range w.request.Templates.CanariesOf(name) {
		asked := false
		c.Selects(w.request.Namespace.Labels, podLabels(pod), func() int { asked = true; return 0 })
		if asked {
			w.out.Warnings = append(w.out.Warnings, fmt.Sprintf("template %s: whether its pods get the canary %s cannot be known, because its share is of workloads by their names, and the pod has neither a name nor an owner", name, c.Name))
		}
	}
}

// explainVersion says which version of a template with canaries the pod gets, and why.
func (w *injection) explainVersion(name string, v chosen, pod map[string]any) {
	if !w.request.Explain {
		return
	}
	workload := owner.Topmost(pod)
	place := owner.Share(w.request.Namespace.Name, workload)
	for _, c := range w.request.Templates.CanariesOf(name) {
		step := policy.Step{Template: name, Rule: "canary " + c.Name}
		switch {
		case c.Version == nil:
			step.Input, step.Result = "it cannot be used: "+c.Unusable.Error(), "selects nobody"
		case !c.InForce():
			step.Input, step.Result = "it is suspended (spec.suspend)", "selects nobody"
		default:
			step.Input = fmt.Sprintf("%s has the place %d of 100, and the share is %d %%", workload, place, c.Percent())
			if namespaces, pods := c.Matches(w.request.Namespace.Labels, podLabels(pod)); !namespaces {
				step.Input = "its namespaceSelector does not select the namespace"
			} else if !pods {
				step.Input = "its podSelector does not select the pod"
			}
			step.Result = "not selected"
			if c.Name == v.canary {
				step.Result = "selected: version " + c.Version.Hash() + " in place of the stable one"
			}
		}
		w.out.Steps = append(w.out.Steps, step)
		if c.Name == v.canary {
			return
		}
	}
}

// Template returns the version of the template that the outcome is about: the stable one, or a
// canary's. It is nil unless the template was rendered, or failed to.
func (t TemplateOutcome) Template() *templates.Template { return t.template }
