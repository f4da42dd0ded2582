package templates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Deciding returns the parameters that decide what the template renders at a path of fields in
// a container, such as ports, containerPort: those that the expressions there read. Where
// some of them have the value that stands there now, those. Params are the pod's.
func (t *Template) Deciding(container string, path []string, value string, params map[string]any) []Parameter {
	awake := t.full()
	var expressions []*expression.Expression
	for _, list := range containerLists {
		expressions = append(expressions, expressionsAt(awake.tree, append([]string{"spec", list}, path...), container)...)
	}
	return awake.deciding(expressions, value, params)
}

// deciding returns the parameters that the expressions read.
func (t *Template) deciding(expressions []*expression.Expression, value string, params map[string]any) []Parameter {
	var names []string
	for _, e := range expressions {
		for _, name := range t.names.ParametersOf(e) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	has := func(name string) bool { return fmt.Sprint(params[name]) == value }
	exact := slices.ContainsFunc(names, has)
	var deciding []Parameter
	for _, p := range t.parameters.Parameters() {
		if slices.Contains(names, p.Name) && (!exact || has(p.Name)) {
			deciding = append(deciding, p)
		}
	}
	return deciding
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

// expressionsAt returns the expressions that stand at a path of fields in a fragment, or
// around it. Of containers it looks at those that may have the name.
func expressionsAt(n node, path []string, container string) []*expression.Expression {
	var found []*expression.Expression
	switch n := n.(type) {
	case *whole:
		found = append(found, n.expression)
	case *text:
		for _, part := range n.parts {
			if part.expression != nil {
				found = append(found, part.expression)
			}
		}
	case *mapping:
		for _, e := range n.entries {
			if len(path) > 0 && e.key == path[0] {
				found = append(found, expressionsAt(e.value, path[1:], container)...)
			}
		}
	case *sequence:
		for _, it := range n.items {
			if name, known := nameOf(it.node); known && it.each == "" && container != "" && name != container {
				continue
			}
			if it.loop != nil {
				found = append(found, it.loop.over)
			}
			found = append(found, expressionsAt(it.node, path, "")...)
		}
	}
	return found
}

// nameOf returns the name of an item that has one without expressions.
func nameOf(n node) (string, bool) {
	m, ok := n.(*mapping)
	if !ok {
		return "", false
	}
	for _, e := range m.entries {
		if c, constant := e.value.(*constant); e.key == "name" && constant {
			name, ok := c.value.(string)
			return name, ok
		}
	}
	return "", false
}
