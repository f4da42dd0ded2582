// Package fragmenttest writes fragments as a template's author writes them, for tests.
package fragmenttest

import (
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
)

var positions = map[directive.Kind]string{directive.First: "First", directive.Last: "Last", directive.Before: "before", directive.After: "after"}

// Object returns a fragment as JSON, with its directives as keys. It is nil for no fragment.
func Object(n *fragment.Node) map[string]any {
	object, _ := JSON(n).(map[string]any)
	return object
}

// JSON returns a node as JSON, with its directives as keys. Items stand in the template's order, and not
// at their positions.
func JSON(n *fragment.Node) any {
	if n == nil {
		return nil
	}
	directives := directivesOf(n)
	switch n.Kind {
	case fragment.Object:
		for _, f := range n.Fields {
			directives[f.Name] = JSON(f.Node)
		}
		return directives
	case fragment.List:
		items := make([]any, 0, len(n.Items))
		if n.Replace {
			items = append(items, map[string]any{directive.Patch: "replace"})
		}
		for _, it := range n.Items {
			items = append(items, JSON(it.Node))
		}
		return items
	}
	if len(directives) == 0 || n.Delete {
		return n.Value
	}
	directives["value"] = n.Value
	return directives
}

func directivesOf(n *fragment.Node) map[string]any {
	all := map[string]any{}
	switch position, anchor := positions[n.Position.Kind], n.Position.Anchor; n.Position.Kind {
	case directive.Default:
	case directive.Before, directive.After:
		all[directive.Position] = map[string]any{position: anchor}
	default:
		all[directive.Position] = position
	}
	if n.Conflict != "" {
		all[directive.OnConflict] = n.Conflict
	}
	switch {
	case n.Delete:
		all[directive.Patch] = "delete"
	case n.Replace && n.Kind != fragment.List:
		all[directive.Patch] = "replace"
	}
	if len(n.Unset) > 0 {
		names := make([]any, len(n.Unset))
		for i, name := range n.Unset {
			names[i] = name
		}
		all[directive.Unset] = names
	}
	if n.Join != nil {
		side := directive.Append
		if n.Join.Side == directive.InFront {
			side = directive.Prepend
		}
		all[side] = n.Join.Separator
	}
	return all
}
