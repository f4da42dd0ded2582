package templates

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/expression"
)

// Decided says what decides the value that a template gives to a place of the pod.
type Decided struct {
	// Parameters are those that an expression at the place, or below it, reads, in the order
	// of the manifest. Variables count for what they read.
	Parameters []Parameter
	// Fixed: the manifest spells the value out, so it is the same for every pod.
	Fixed bool
	// Written: the template has something at the path, fixed or computed.
	Written bool
}

// AnyItem stands in a path for every item of a list.
const AnyItem = "*"

// At says what decides the value at a path of the pod: names of fields, and for an item of a
// list the value of its key (spec, initContainers, fluent-bit, resources, limits, memory) or
// [AnyItem]. A path that the template does not write has neither parameters nor is it fixed.
func (t *Template) At(path []string) Decided {
	return t.decided(t.tree, path)
}

// decided says what decides the value at a path below a node. The template has its tree.
func (t *Template) decided(n node, path []string) Decided {
	w := placeReader{names: t.names}
	w.read(n, path)
	d := Decided{Fixed: w.constant && !w.expression, Written: w.constant || w.expression}
	for _, p := range t.Parameters() {
		if slices.Contains(w.params, p.Name) {
			d.Parameters = append(d.Parameters, p)
		}
	}
	return d
}

// placeReader gathers what decides a place.
type placeReader struct {
	names  *expression.Names
	params []string
	// constant and expression: the place, or a part of it, is spelt out, or is computed.
	constant, expression bool
}

// read reads a node at what is left of a path.
func (w *placeReader) read(n node, path []string) {
	switch n := n.(type) {
	case *constant:
		if holds(n.value, path) {
			w.constant = true
		}
	case *text:
		w.parts(n.parts)
	case *whole:
		w.note(n.expression)
	case *mapping:
		w.mapping(n, path)
	case *sequence:
		w.sequence(n, path)
	}
}

func (w *placeReader) mapping(n *mapping, path []string) {
	if n.scalar {
		w.read(n.entries[0].value, path)
		return
	}
	named := len(path) > 0 && slices.ContainsFunc(n.entries, func(e entry) bool { return e.text == nil && e.key == path[0] })
	for _, e := range n.entries {
		switch {
		case len(path) == 0:
			w.parts(e.text)
			w.read(e.value, nil)
		case e.text == nil && e.key == path[0]:
			w.read(e.value, path[1:])
		case e.text != nil && !named:
			w.parts(e.text)
			w.read(e.value, path[1:])
		}
	}
}

func (w *placeReader) sequence(n *sequence, path []string) {
	var items []item
	if len(path) > 0 && path[0] == AnyItem {
		items, path = n.items, path[1:]
	} else if len(path) > 0 {
		items = slices.DeleteFunc(slices.Clone(n.items), func(it item) bool { key, ok := n.key(it); return it.each == "" && (!ok || key != path[0]) })
		path = path[1:]
		if !slices.ContainsFunc(items, func(it item) bool { return it.each == "" }) { // or one whose key is computed
			items = slices.DeleteFunc(slices.Clone(n.items), func(it item) bool { _, ok := n.key(it); return it.each == "" && ok })
		}
	} else {
		items = n.items
	}
	for _, it := range items {
		if it.loop != nil {
			w.note(it.loop.over)
		}
		w.read(it.node, path)
	}
}

// key returns the value of an item's first key field, if the manifest spells it out.
func (q *sequence) key(it item) (string, bool) {
	if q.typ == nil || len(q.typ.Keys()) == 0 {
		return "", false
	}
	name := q.typ.Keys()[0].Name
	switch n := it.node.(type) {
	case *constant:
		if m, ok := n.value.(map[string]any); ok {
			return textOf(m[name])
		}
	case *mapping:
		for _, e := range n.entries {
			if known, ok := e.value.(*constant); ok && e.text == nil && e.key == name {
				return textOf(known.value)
			}
		}
	}
	return "", false
}

// textOf returns a scalar as a path has it.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case interface{ String() string }:
		return v.String(), true
	}
	return "", false
}

// holds reports whether a value has something at a path. Items of a list are found by any
// of their texts, because a value has no schema.
func holds(v any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		below, ok := v[path[0]]
		return ok && holds(below, path[1:])
	case []any:
		return slices.ContainsFunc(v, func(item any) bool {
			m, ok := item.(map[string]any)
			if !ok {
				return false
			}
			if path[0] == AnyItem {
				return holds(m, path[1:])
			}
			for _, field := range m {
				if text, ok := textOf(field); ok && text == path[0] {
					return holds(m, path[1:])
				}
			}
			return false
		})
	}
	return true // the path goes on below a scalar: a problem with a part of it
}

func (w *placeReader) parts(parts []textPart) {
	for _, p := range parts {
		if p.expression != nil {
			w.note(p.expression)
		}
	}
}

// note gathers the parameters that an expression reads, also through variables.
func (w *placeReader) note(e *expression.Expression) {
	w.expression = true
	if e == nil {
		return
	}
	for _, name := range w.names.ParametersOf(e) {
		if !slices.Contains(w.params, name) {
			w.params = append(w.params, name)
		}
	}
}
