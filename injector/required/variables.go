package required

import (
	"regexp"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// reference is how the value of a variable refers to another one.
var reference = regexp.MustCompile(`\$\(([^()]+)\)`)

// variables finds variables of a template in a container of others that refer to one of a template, and do not
// get it: $(NAME) stands for the last NAME in front of it.
func (r *comparison) variables(container map[string]any, wanted map[string]string, at *podschema.Path) {
	env, _ := container["env"].([]any)
	last := map[string]int{}
	for i, v := range env {
		name, _ := podschema.ObjectOf(v)["name"].(string)
		last[name] = i
	}
	t := podschema.At("spec.containers[].env[]")
	before := map[string]any{}
	for i, v := range env {
		name, _ := podschema.ObjectOf(v)["name"].(string)
		value, _ := podschema.ObjectOf(v)["value"].(string)
		if template := wanted[name]; template != "" && i == last[name] {
			for _, found := range reference.FindAllStringSubmatch(value, -1) {
				other := found[1]
				if other != name && wanted[other] != "" && !podschema.Equal(t, before[other], env[last[other]]) {
					r.differs(template, at.Field("env").Key("name="+other), mustComeBeforeUser, podschema.Clip(name))
				}
			}
		}
		before[name] = v
	}
}
