package templates

import (
	"maps"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/hazard"
)

// TextHazards warns of values inside the text of a shell script or of a configuration,
// where they can mean more than a value. It does not warn of numbers, of values that an
// enum or a pattern narrows, of shellQuote, and of toJson in a configuration.
func (t *Template) TextHazards() []Warning {
	var warnings []Warning
	texts := textsIn(t.tree, false, nil)
	for _, f := range t.files {
		texts = append(texts, textsIn(f.text, false, nil)...)
	}
	for _, h := range hazard.Find(t.spec.Parameters, t.names, texts) {
		warnings = append(warnings, Warning{Template: t.name, Path: h.At.String(), Line: h.Line, Message: h.Message})
	}
	for _, at := range pathsIn(t.tree) {
		warnings = append(warnings, Warning{Template: t.name, Path: at.At.String(), Line: at.Line, Message: "joins a text to PATH, which the image sets: Pillion does not see that value, so the text takes its place, and programs are not found; use another variable, or set all of PATH"})
	}
	return warnings
}

// pathsIn returns the items of environments that join a text to PATH.
func pathsIn(n node) []expression.Place {
	var found []expression.Place
	switch n := n.(type) {
	case *mapping:
		for _, e := range n.entries {
			if name, ok := e.value.(*constant); ok && e.key == "name" && name.value == "PATH" && directive.Joins(n.directives) {
				found = append(found, n.Place)
			}
			found = append(found, pathsIn(e.value)...)
		}
	case *sequence:
		for _, it := range n.items {
			found = append(found, pathsIn(it.node)...)
		}
	}
	return found
}

// textsIn returns the texts with expressions in a part of the fragment. script is set for
// the text of a shell's script; loops has, for each name that $for binds, the expression
// that gives its list.
func textsIn(n node, script bool, loops map[string]*expression.Expression) []hazard.Text {
	var found []hazard.Text
	switch n := n.(type) {
	case *shared:
		return textsIn(n.node, script, loops)
	case *mapping:
		shell := hazard.RunsShell(command(n))
		for _, e := range n.entries {
			found = append(found, textsIn(e.value, script || shell && isCommand(e), loops)...)
		}
	case *sequence:
		for _, it := range n.items {
			below := loops
			if it.loop != nil {
				below = map[string]*expression.Expression{it.loop.name: it.loop.over}
				maps.Copy(below, loops)
			}
			found = append(found, textsIn(it.node, script, below)...)
		}
	case *text:
		parts := make([]hazard.Part, len(n.parts))
		for i, p := range n.parts {
			parts[i] = hazard.Part{Literal: p.literal, Expression: p.expression}
		}
		found = append(found, hazard.Text{Parts: parts, Script: script, Loops: loops})
	case *whole:
		if script {
			found = append(found, hazard.Text{Parts: []hazard.Part{{Expression: n.expression}}, Script: script, Loops: loops})
		}
	}
	return found
}

func isCommand(e entry) bool { return e.key == "command" || e.key == "args" }

// command returns the words of a container's command, or of a probe's, as far as the
// template spells them out.
func command(m *mapping) []hazard.Part {
	var words []hazard.Part
	literal := func(v any) {
		if word, ok := v.(string); ok {
			words = append(words, hazard.Part{Literal: word})
		}
	}
	for _, e := range m.entries {
		if !isCommand(e) {
			continue
		}
		switch v := e.value.(type) {
		case *whole: // a list by one expression
			words = append(words, hazard.Part{Expression: v.expression})
		case *constant:
			items, _ := v.value.([]any)
			for _, item := range items {
				literal(item)
			}
		case *sequence:
			for _, it := range v.items {
				if c, ok := it.node.(*constant); ok {
					literal(c.value)
				}
			}
		}
	}
	return words
}
