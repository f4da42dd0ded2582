package templates

import "github.com/pillion-dev/pillion/templates/param"

// Parameter is a parameter of a template as a team meets it.
type Parameter = param.Parameter

// ParameterError is a mistake of a team in a parameter.
type ParameterError = param.Error

// Origin says where a parameter's value comes from.
type Origin = param.Origin

// Where a parameter's value comes from.
const (
	FromDefault   = param.FromDefault
	FromNamespace = param.FromNamespace
	FromPod       = param.FromPod
)

// Mistakes returns what is wrong with the annotations of a namespace or of a pod by themselves,
// as far as they are this template's. A parameter that the template does not have is none.
func (t *Template) Mistakes(from Origin, annotations map[string]string) []*ParameterError {
	return t.parameters.Mistakes(from, annotations)
}
