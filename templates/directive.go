package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// isDirective reports whether a key of the manifest is that of a directive, and not a text that begins with an
// expression.
func isDirective(key string) bool {
	return directive.Is(key) && !strings.HasPrefix(key, "${") && !strings.HasPrefix(key, "$${")
}

// directives compiles the object's $if and the merge's directives into m. The list has already removed $for and
// $each.
func (c *compiler) directives(m *mapping, v map[string]any, h here) {
	forMerge := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		at := h.at.Field(key)
		switch {
		case key == directive.If:
			m.condition = c.condition(v[key], at, h.env)
		case key == directive.For:
			c.problem(at, "is only for items of a list")
		case key == directive.Each:
			c.problem(at, "is only for items of spec.containers")
		case isDirective(key):
			forMerge[key] = v[key]
		}
	}
	if len(forMerge) == 0 {
		return
	}
	m.directed = true
	for key, value := range v {
		if !directive.Is(key) {
			forMerge[key] = value
		}
	}
	for _, p := range directive.Check(forMerge, h.where()) {
		c.problem(h.at.Field(p.Key), p.Message)
	}
	m.says = directive.Of(forMerge)
	if m.says.Conflict == directive.KeepPod && c.spec.Required {
		c.problem(h.at.Field(directive.OnConflict), "must be Deny or Overwrite; got KeepPod: with KeepPod a pod could keep a part of a required template out")
	}
	if anchor := m.says.Position.Anchor; anchor != "" {
		m.anchor = c.anchor(anchor, h)
	}
	c.unsetFields(m.says.Unset, h)
}

// anchor compiles the name in a $position. It returns nil for plain text.
func (c *compiler) anchor(name string, h here) []textPart {
	h.at = h.at.Field(directive.Position)
	parts, err := expression.Scan(name)
	if err != nil {
		c.problem(h.at, err.Error())
		return nil
	}
	if !slices.ContainsFunc(parts, func(p expression.Part) bool { return p.IsExpr }) {
		return nil
	}
	return c.textParts(name, parts, h)
}

// unsetFields checks that a pod has the fields that $unset names.
func (c *compiler) unsetFields(names []string, h here) {
	if h.typ == nil || h.typ.Kind() != podschema.Struct {
		return
	}
	for _, name := range names {
		if _, ok := h.typ.Field(name); !ok {
			c.problem(h.at.Field(directive.Unset), "unknown field "+show.Value(name)+nearest.Hint(name, h.typ.FieldNames()))
		}
	}
}

// condition compiles an $if.
func (c *compiler) condition(v any, at *manifest.Path, env *expression.Environment) *expression.Expression {
	source, ok := v.(string)
	if !ok {
		if b, isBool := v.(bool); isBool {
			source = fmt.Sprint(b)
		} else {
			c.problem(at, fmt.Sprintf("must be an expression; got %s", show.Kind(v)))
			return nil
		}
	}
	return c.boolean(env, source, at)
}

// boolean compiles an expression that must give true or false.
func (c *compiler) boolean(env *expression.Environment, source string, at *manifest.Path) *expression.Expression {
	if strings.HasPrefix(strings.TrimSpace(source), "${") {
		c.problem(at, "is an expression already; remove the ${}")
		return nil
	}
	return env.CompileCondition(source, c.textPlace(at, source, 0))
}
