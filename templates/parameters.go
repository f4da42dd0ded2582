package templates

import "github.com/pillion-dev/pillion/templates/param"

// Parameter is a parameter of a template, described for teams.
type Parameter = param.Parameter

// ParameterError is a mistake of a team in a parameter.
type ParameterError = param.Error

// Origin is the source of a parameter's value.
type Origin = param.Origin

// The sources of a parameter's value.
const (
	FromDefault   = param.FromDefault
	FromNamespace = param.FromNamespace
	FromPod       = param.FromPod
)

// Mistakes returns the mistakes in the template's annotations of a namespace or of a pod alone. It ignores
// annotations that name no parameter of the template.
func (t *Template) Mistakes(from Origin, annotations map[string]string) []*ParameterError {
	return t.parameters.Mistakes(from, annotations)
}
