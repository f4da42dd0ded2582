package injector

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
)

// Version is the version of a template that a pod gets.
type Version struct {
	// Hash is that of the stable template, or of its canary.
	Hash string
	// Canary is the name of the canary, "" for the stable template.
	Canary string
	// template is nil for a template that was not rendered.
	template *templates.Template
}

// Template returns the compiled version. It returns nil if the template was not rendered, for example because
// it is suspended.
func (v Version) Template() *templates.Template { return v.template }

// versionChoice is the version that a pod gets, with the steps that explain the choice.
type versionChoice struct {
	Version
	// warning is set if the canary's share cannot be decided for the pod.
	warning string
	steps   []policy.Step
}

// version returns the first canary, by name, that selects the pod, else the stable template. It reads the
// pod's labels, name and owner.
//
// The pod's author writes all three, so an author can choose the version as far as the canary's
// namespaceSelector allows. All versions of a required template are required alike.
func (c *call) version(stable templates.Entry, pod map[string]any) versionChoice {
	v := versionChoice{Version: Version{Hash: stable.Template.Hash(), template: stable.Template}}
	canaries := c.request.Templates.CanariesOf(stable.Name)
	if len(canaries) == 0 {
		return v
	}
	ns, labels, workload := c.request.Namespace, podLabels(pod), owner.Topmost(pod)
	needsShare := false
	share := func() int { needsShare = true; return owner.Share(ns.Name, workload) }
	for _, canary := range canaries {
		selected := canary.Selects(ns.Labels, labels, share)
		if needsShare && workload.Name == "" && v.warning == "" {
			v.warning = fmt.Sprintf(unknownCanary, stable.Name, canary.Name)
		}
		if c.request.Explain {
			position := fmt.Sprintf(canaryPlace, workload, owner.Share(ns.Name, workload))
			v.steps = append(v.steps, canaryStep(canary, ns, labels, position, selected))
		}
		if selected {
			v.Version = Version{Hash: canary.Version.Hash(), Canary: canary.Name, template: canary.Version}
			return v
		}
	}
	return v
}

// canaryStep explains whether a canary selects a pod. Position is the workload's place among all workloads.
func canaryStep(c templates.Canary, ns templates.Namespace, labels map[string]string, position string, selected bool) policy.Step {
	step := policy.Step{Template: c.Of, Rule: "canary " + c.Name, Result: "not selected"}
	switch {
	case c.Version == nil:
		step.Input, step.Result = fmt.Sprintf(canaryUnusable, c.Unusable), "selects nobody"
		return step
	case !c.InForce():
		step.Input, step.Result = canarySuspended, "selects nobody"
		return step
	}
	step.Input = fmt.Sprintf(canaryShare, position, c.Percent())
	if !c.MatchesNamespace(ns.Labels) {
		step.Input = otherNamespaces
	} else if !c.MatchesPod(labels) {
		step.Input = otherPods
	}
	if selected {
		step.Result = fmt.Sprintf(canarySelected, c.Version.Hash())
	}
	return step
}
