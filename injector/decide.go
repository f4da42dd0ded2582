package injector

import (
	"slices"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// disabled reports whether the namespace's label disables injection. API servers then do not call Pillion, but
// the command line does, and a webhook does while the label is being changed.
func (p *Pipeline) disabled(ns templates.Namespace) bool {
	return ns.Labels[v1alpha1.InjectionLabel] == v1alpha1.InjectionDisabled
}

// decide chooses among the templates, by the annotations and labels of the base pod. Required
// templates see the labels of the pod as it is.
func (c *call) decide(base map[string]any, labels map[string]string) policy.Decision {
	r, p := c.request, c.pipeline
	request := policy.Request{
		Operation: r.Operation, Subresource: r.Subresource, FromNode: r.FromNode,
		PodAnnotations: stringMap(annotationsOf(base)), PodLabels: podLabels(base), RequiredPodLabels: labels,
		Namespace: policy.NamespaceMetadata{
			Name: r.Namespace.Name, Labels: r.Namespace.Labels, Annotations: r.Namespace.Annotations,
			Excluded: slices.Contains(p.config.ExcludedNamespaces, r.Namespace.Name), Disabled: p.disabled(r.Namespace),
		},
		Explain: r.Explain,
	}
	for _, canary := range r.Templates.Canaries() {
		if request.Canaries == nil {
			request.Canaries = map[string]string{}
		}
		request.Canaries[canary.Name] = canary.Of
	}
	entries := r.Templates.Entries()
	all := make([]policy.Template, len(entries))
	for i := range entries {
		all[i] = c.facts(&entries[i], labels)
	}
	return policy.Decide(request, all)
}

// facts returns a template as the decision sees it.
func (c *call) facts(e *templates.Entry, labels map[string]string) policy.Template {
	t := policy.Template{Name: e.Name, Namespaced: e.Namespace != "", Available: e.AvailableTo(c.request.Namespace.Labels)}
	if e.Template == nil {
		t.Broken = e.Err
	}
	known := e.Known()
	if known == nil {
		return t
	}
	spec := known.Spec()
	t.Suspended, t.Required, t.InjectByDefault = spec.Suspend, spec.Required, spec.InjectByDefault
	t.SkipBroken = spec.OnError == v1alpha1.ErrorSkip && !spec.Required
	if namespaces, pods, ok := known.Match(); ok {
		t.Match = &policy.Match{Namespaces: namespaces, Pods: pods}
	}
	if exception := known.Exceptions().Find(c.request.Namespace.Labels, labels); exception != nil {
		t.Exception = &policy.Exception{Name: exception.Name, Why: exception.Sentence(c.request.Now), Ended: exception.Ended(c.request.Now)}
	}
	return t
}
