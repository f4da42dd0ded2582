package record

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Uninject returns the pod without what Pillion put in, as [Record.Base] does,
// but values that somebody changed since stay as they are, each with a warning.
// An item that Pillion added as a whole, such as a sidecar, goes with all that
// others made of it.
func (r Record) Uninject(pod map[string]any) (map[string]any, []string) {
	kept := Record{Templates: r.Templates, Root: r.Root.Clone(), key: r.key}
	var warnings []string
	kept.Root.keepChanged(pod, podschema.Pod(), nil, &warnings)
	slices.Sort(warnings)
	return kept.Base(pod), warnings
}

// keepChanged takes the places out of p whose values somebody changed.
func (p *Place) keepChanged(v any, t *podschema.Type, path []string, warnings *[]string) {
	if len(p.In) == 0 {
		return
	}
	var values map[string]any
	at := func(segment string) (any, *podschema.Type) { return values[segment], t.Child(segment) }
	switch w := v.(type) {
	case map[string]any:
		values = w
	case []any:
		id, ok := t.Identity()
		if !ok {
			return
		}
		index := Match(p, id, w, p.In)
		at = func(segment string) (any, *podschema.Type) {
			i, ok := index[segment]
			if !ok {
				return nil, nil
			}
			return w[i], id.Elem
		}
	default:
		return
	}
	for segment, child := range p.In {
		value, vt := at(segment)
		here := append(path[:len(path):len(path)], segment)
		switch {
		case value == nil:
		case child.Wrote != "" && vt.IsOneAddition() && Digest(vt, value) != child.Wrote:
			p.Forget(segment)
			*warnings = append(*warnings, fmt.Sprintf("%s: somebody changed it to %s since it was injected, so it stays", podschema.Readable(here), podschema.Show(value)))
		case !child.Owns():
			child.keepChanged(value, vt, here, warnings)
		}
	}
}
