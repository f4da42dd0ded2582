package injector

import (
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// disabled reports whether the namespace's label has Pillion keep out. API servers do not call
// it then; offline and in the moment of a change the label has the same meaning.
func (p *Pipeline) disabled(ns templates.Namespace) bool {
	return ns.Labels[p.injectionKey] == templates.InjectionDisabled
}

// catalog is the set in force as the decision sees it.
type catalog struct{ *templates.Set }

func (c catalog) At(place int) policy.Template {
	e := c.Set.At(place)
	t := policy.Template{Name: e.Name, Namespaced: e.Namespace != "", Suspended: e.Suspended(), Required: e.Required(), Exceptions: e.Exceptions()}
	if e.Template == nil {
		t.Broken = e.Err
	}
	if known := e.Known(); known != nil {
		t.Audience, t.SkipBroken = known, known.Spec().OnError == v1alpha1.ErrorSkip && !t.Required
	}
	return t
}

func (c catalog) CanaryOf(name string) (string, bool) {
	canary, ok := c.Canary(name)
	return canary.Of, ok
}
