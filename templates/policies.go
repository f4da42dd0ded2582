package templates

import "github.com/pillion-dev/pillion/templates/v1alpha1"

// Policies are the fields of a spec that say for which pods the template counts, and what
// becomes of a failure or a conflict.
type Policies struct {
	Required, InjectByDefault, Suspend, Overridable bool
	OnConflict                                      v1alpha1.ConflictPolicy
	OnError                                         v1alpha1.ErrorPolicy
	PodResources                                    v1alpha1.PodResourcesPolicy
	OS                                              []v1alpha1.OperatingSystem
}

// Policies returns what the spec says besides parameters, expressions and fragment.
func (t *Template) Policies() Policies {
	return Policies{
		Required: t.spec.Required, InjectByDefault: t.spec.InjectByDefault, Suspend: t.spec.Suspend, Overridable: t.spec.Overridable,
		OnConflict: t.spec.OnConflict, OnError: t.spec.OnError, PodResources: t.spec.PodResources, OS: t.spec.OS,
	}
}
