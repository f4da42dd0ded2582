package templates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/show"
)

// PortAdvice names the annotations with which a team can change a port of the template's containers: those of
// the parameters that have that number, or else of all parameters that the template's ports read. It returns ""
// if teams may set none of them. Params are the pod's.
func (t *Template) PortAdvice(port string, params map[string]any) string {
	reads := map[string]bool{}
	t.portParameters(t.tree, false, reads)
	var ways, exact []string
	for _, p := range t.Parameters() {
		levels := make([]string, len(p.SetBy))
		for i, level := range p.SetBy {
			levels[i] = "the " + strings.ToLower(string(level))
		}
		slices.Sort(levels)
		if !reads[p.Name] || len(levels) == 0 {
			continue
		}
		way := fmt.Sprintf("set the annotation %s on %s to another value", p.Annotations(), strings.Join(levels, " or "))
		if v, ok := params[p.Name]; ok {
			way += ", now " + show.Plain(fmt.Sprint(v))
		}
		if ways = append(ways, way); fmt.Sprint(params[p.Name]) == port {
			exact = append(exact, way)
		}
	}
	if len(exact) > 0 {
		ways = exact
	}
	return strings.Join(ways, ", or ")
}

// portParameters collects the parameters that expressions below the field ports read.
func (t *Template) portParameters(n node, inPorts bool, reads map[string]bool) {
	note := func(e *expression.Expression) {
		if !inPorts || e == nil {
			return
		}
		for _, name := range t.names.ParametersOf(e) {
			reads[name] = true
		}
	}
	switch n := n.(type) {
	case *text:
		for _, p := range n.parts {
			note(p.expression)
		}
	case *whole:
		note(n.expression)
	case *mapping:
		for _, e := range n.entries {
			t.portParameters(e.value, inPorts || e.key == "ports", reads)
		}
	case *sequence:
		for _, it := range n.items {
			if it.loop != nil {
				note(it.loop.over)
			}
			t.portParameters(it.node, inPorts, reads)
		}
	}
}
