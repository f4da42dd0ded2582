package injector

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
)

// version is the version of a template that a pod gets.
type version struct {
	template *templates.Template
	// canary is the name of the canary that it is, "" for the stable template.
	canary string
	// warning says that nobody knows whether the pod gets a canary, and steps say why it gets the version.
	warning string
	steps   []policy.Step
}

// version returns the version of a template that a pod gets: that of the first canary by name that
// selects the pod, else the stable one. Of the pod it reads labels, name and owner.
//
// All that it reads of the pod is its author's to write. So an author can choose the version by labels and
// owners, as far as namespaceSelector lets them: of a required template each version is as required
// as the other.
func (c *call) version(stable templates.Entry, pod map[string]any) version {
	v := version{template: stable.Template}
	canaries := c.request.Templates.CanariesOf(stable.Name)
	if len(canaries) == 0 {
		return v
	}
	ns, labels, workload := c.request.Namespace, podLabels(pod), owner.Topmost(pod)
	asked := false
	share := func() int { asked = true; return owner.Share(ns.Name, workload) }
	for _, canary := range canaries {
		selected := canary.Selects(ns.Labels, labels, share)
		if asked && workload.Name == "" && v.warning == "" {
			v.warning = fmt.Sprintf("template %s: whether its pods get the canary %s cannot be known, because its share is of workloads by their names, and the pod has neither a name nor an owner", stable.Name, canary.Name)
		}
		if c.request.Explain {
			v.steps = append(v.steps, canaryStep(canary, ns, labels, owner.Share(ns.Name, workload), workload.String(), selected))
		}
		if selected {
			v.template, v.canary = canary.Version, canary.Name
			return v
		}
	}
	return v
}

// canaryStep says whether a pod gets a canary, and why.
func canaryStep(c templates.Canary, ns templates.Namespace, labels map[string]string, share int, workload string, selected bool) policy.Step {
	step := policy.Step{Template: c.Of, Rule: "canary " + c.Name, Result: "not selected"}
	switch {
	case c.Version == nil:
		step.Input, step.Result = "it cannot be used: "+c.Unusable.Error(), "selects nobody"
		return step
	case !c.InForce():
		step.Input, step.Result = "it is suspended (spec.suspend)", "selects nobody"
		return step
	}
	step.Input = fmt.Sprintf("%s has the place %d of 100, and the share is %d %%", workload, share, c.Percent())
	if namespaces, pods := c.Matches(ns.Labels, labels); !namespaces {
		step.Input = "its namespaceSelector does not select the namespace"
	} else if !pods {
		step.Input = "its podSelector does not select the pod"
	}
	if selected {
		step.Result = "selected: version " + c.Version.Hash() + " in place of the stable one"
	}
	return step
}

// Template returns the version of the template that the outcome is about: the stable one, or a
// canary's. It is nil unless the template was rendered, or failed to.
func (t TemplateOutcome) Template() *templates.Template { return t.template }
