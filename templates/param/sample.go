package param

import (
	"fmt"

	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Samples returns values for a test render: for the parameters with a default and, if all is set, for the
// others, too. A value is the default, the example, or made up; madeUp lists the made-up ones. missing is a
// required parameter without a value; v is nil then.
func (s *Set) Samples(all bool) (v *Values, madeUp []string, missing string) {
	v = newValues()
	for _, p := range s.parameters {
		name := p.decl.Name
		switch sample, ok := p.sample(); {
		case all && p.decl.Example != nil:
			v.ByName[name] = p.example
		case p.decl.Default != nil:
			v.ByName[name] = p.def
		case !all && !p.decl.Required:
		case p.decl.Example != nil:
			v.ByName[name] = p.example
		case ok:
			v.ByName[name] = sample
			madeUp = append(madeUp, fmt.Sprintf("%s: %s", name, show.Value(textOf(sample))))
		case p.decl.Required:
			return nil, nil, name
		}
		if _, ok := v.ByName[name]; !ok && p.decl.Type == v1alpha1.Map {
			v.ByName[name] = map[string]any{} // it is never absent
		}
		if _, ok := v.ByName[name]; ok {
			v.Origins[name] = FromDefault
		}
	}
	return v, madeUp, ""
}
