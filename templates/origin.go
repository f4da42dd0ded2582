package templates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Deciding returns the parameters that decide what the template renders at a path of fields in
// a container, such as ports, [AnyItem], containerPort: those that the expressions there read.
// Where some of them have the value that stands there now, those. Params are the pod's.
func (t *Template) Deciding(container string, path []string, value string, params map[string]any) []Parameter {
	var all []Parameter
	for _, list := range containerLists {
		for _, p := range t.At(append([]string{"spec", list, container}, path...)).Parameters {
			if !slices.ContainsFunc(all, func(other Parameter) bool { return other.Name == p.Name }) {
				all = append(all, p)
			}
		}
	}
	var exact []Parameter
	for _, p := range all {
		if fmt.Sprint(params[p.Name]) == value {
			exact = append(exact, p)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return all
}

// Advice says with which annotations a team changes the parameters, and what their values
// are now. It returns "" if a team may set none of them.
func Advice(parameters []Parameter, params map[string]any) string {
	var ways []string
	for _, p := range parameters {
		where := ""
		switch pod, namespace := slices.Contains(p.SetBy, v1alpha1.Pod), slices.Contains(p.SetBy, v1alpha1.Namespace); {
		case pod && namespace:
			where = "the pod or its namespace"
		case pod:
			where = "the pod"
		case namespace:
			where = "the namespace"
		default:
			continue
		}
		way := fmt.Sprintf("set the annotation %s on %s to another value", p.Annotation, where)
		if v, ok := params[p.Name]; ok {
			way += ", now " + show.Plain(fmt.Sprint(v))
		}
		ways = append(ways, way)
	}
	return strings.Join(ways, ", or ")
}
