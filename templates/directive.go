package templates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

var directives = []string{"$if", "$for", "$each", "$position", "$onConflict", "$patch", "$unset"}

// directive compiles a key that begins with $.
func (c *fragmentCompiler) directive(key string, v any, m *mapping, h here) {
	at := h.at.field(key)
	if key == "$if" {
		m.condition = c.condition(v, at, h.env)
		return
	}
	var checked any
	wrong := ""
	switch key {
	case "$for":
		wrong = "is only for items of a list"
	case "$each":
		wrong = "is only for items of spec.containers"
	case "$position":
		checked, wrong = c.position(v, h)
	case "$onConflict":
		checked, wrong = c.onConflict(v, h)
	case "$patch":
		checked, wrong = patchDirective(v, h)
	case "$unset":
		checked, wrong = unset(v, h)
	default:
		wrong = "unknown directive" + didYouMean(key, directives)
	}
	if wrong != "" {
		c.problem(at, wrong)
		return
	}
	if m.directives == nil {
		m.directives = map[string]any{}
	}
	m.directives[key] = checked
}

// condition compiles an $if.
func (c *fragmentCompiler) condition(v any, at *path, env environment) *expression {
	source, ok := v.(string)
	if !ok {
		if b, isBool := v.(bool); isBool {
			source = fmt.Sprint(b)
		} else {
			c.problem(at, fmt.Sprintf("is %s; want an expression", kindOf(v)))
			return nil
		}
	}
	return c.boolean(env, source, at)
}

// boolean compiles an expression that must give true or false.
func (c *compiler) boolean(env environment, source string, at *path) *expression {
	if strings.HasPrefix(strings.TrimSpace(source), "${") {
		c.problem(at, "is an expression by itself; take off the ${}")
		return nil
	}
	e := c.expression(env, source, at, c.source.textLine(at, source, 0))
	if e == nil {
		return nil
	}
	if k := e.out.Kind(); k != types.BoolKind && k != types.DynKind && k != types.AnyKind {
		c.problemAt(at, e.line, fmt.Sprintf("the expression %s gives %s; want true or false", shown(source), celKind(cel.FormatCELType(e.out))))
		return nil
	}
	return e
}

// position checks $position. It stands on items of lists that have keys.
func (c *fragmentCompiler) position(v any, h here) (checked any, wrong string) {
	if !h.isItem || h.atomic {
		return nil, "is only for items of lists whose items have names or keys"
	}
	switch v := v.(type) {
	case string:
		if v == "First" || v == "Last" {
			return v, ""
		}
	case map[string]any:
		if len(v) != 1 {
			break
		}
		for side, anchor := range v {
			name, ok := anchor.(string)
			if side != "before" && side != "after" || !ok || name == "" || strings.Contains(name, "${") {
				break
			}
			return v, ""
		}
	}
	return nil, "want First, Last, {before: NAME} or {after: NAME}"
}

func (c *fragmentCompiler) onConflict(v any, h here) (checked any, wrong string) {
	if h.atomic {
		return nil, "cannot stand inside what the API treats as one value"
	}
	if c.spec.Required && v == string(v1alpha1.ConflictKeepPod) {
		return nil, "is KeepPod; want Deny or Overwrite: with KeepPod a pod could keep a part of a required template out"
	}
	policies := []string{string(v1alpha1.ConflictDeny), string(v1alpha1.ConflictKeepPod), string(v1alpha1.ConflictOverwrite)}
	if text, ok := v.(string); ok && slices.Contains(policies, text) {
		return v, ""
	}
	return nil, "want one of " + strings.Join(policies, ", ")
}

// patchDirective checks $patch. What a pod cannot be without stays.
func patchDirective(v any, h here) (checked any, wrong string) {
	switch {
	case h.gathered && v == "replace": // the item that speaks of the whole list
		return v, ""
	case h.atomic:
		return nil, "cannot stand inside what the API treats as one value"
	case h.pod == "" || h.pod == "metadata" || h.pod == "metadata.annotations" || h.pod == "spec":
		return nil, "would take away what no template may: " + fragmentRoots
	}
	if v == "delete" || v == "replace" {
		return v, ""
	}
	return nil, "want delete or replace"
}

func unset(v any, h here) (checked any, wrong string) {
	fields, ok := v.([]any)
	if h.atomic || !ok || len(fields) == 0 {
		return nil, "want a list of this object's fields, outside what the API treats as one value"
	}
	for _, f := range fields {
		name, ok := f.(string)
		if !ok || name == "" {
			return nil, "want names of fields"
		}
		if h.pod == "spec" && name == "containers" || h.pod == "" || h.pod == "metadata" {
			return nil, "would take away what no template may: " + shown(name)
		}
		if h.typ != nil && h.typ.Kind() == podschema.Struct {
			if _, ok := h.typ.Field(name); !ok {
				return nil, "unknown field " + shown(name) + didYouMean(name, h.typ.FieldNames())
			}
		}
	}
	return v, ""
}
