package param

import (
	"fmt"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Template is the template that declares parameters.
type Template struct {
	Name string
	// Required is set for a required template. By default no level may set its parameters.
	Required bool
	// Patterns counts the regular expressions.
	Patterns *Patterns
}

// Report reports a mistake and its place in the manifest, which is nil for the installer's values.
type Report func(at *manifest.Path, message string)

// Set is the compiled parameters of one template. It is immutable.
type Set struct {
	name, prefix string
	// namespaced is set if a tenant wrote the patterns.
	namespaced bool
	parameters []*parameter
}

// Compile checks the declarations at a place of the manifest, and sets their defaults. It reports a declaration
// with a mistake, and may leave it out of the set.
func Compile(of Template, declared []v1alpha1.Parameter, at *manifest.Path, report Report) *Set {
	s := &Set{name: of.Name, prefix: v1alpha1.OfTemplate(of.Name), namespaced: of.Patterns.Namespaced}
	suffixes, seconds := map[string]string{}, map[string]string{}
	for i, d := range declared {
		here := at.Item(i)
		p := compileParameter(d, of, here, report)
		if p == nil {
			continue
		}
		if other, ok := suffixes[p.suffix]; ok {
			report(here.Field("name"), fmt.Sprintf(sameAnnotation, s.prefix, p.suffix, other))
			continue
		}
		suffixes[p.suffix] = p.decl.Name
		if second := p.decl.SecondAnnotation; second != "" {
			if other, ok := seconds[second]; ok {
				report(here.Field("annotation"), fmt.Sprintf(takenAnnotation, second, other))
			}
			seconds[second] = p.decl.Name
		}
		s.parameters = append(s.parameters, p)
	}
	return s
}

// Declarations returns the declarations with defaults and setBy set.
func (s *Set) Declarations() []v1alpha1.Parameter {
	var all []v1alpha1.Parameter
	for _, p := range s.parameters {
		all = append(all, p.decl)
	}
	return all
}

// Names returns the parameters' names in their order.
func (s *Set) Names() []string {
	names := make([]string, len(s.parameters))
	for i, p := range s.parameters {
		names[i] = p.decl.Name
	}
	return names
}

// Parameters returns the parameters, described for teams.
func (s *Set) Parameters() []Parameter {
	out := make([]Parameter, len(s.parameters))
	for i, p := range s.parameters {
		out[i] = Parameter{Parameter: p.decl, Annotation: p.key(s.prefix), Allowed: p.allowed()}
	}
	return out
}
