package record

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Uninject returns the pod without Pillion's values, as [Record.Base] does. A value that somebody has changed
// since stays, with a warning. A container that Pillion added goes with all later changes in it.
func (r Record) Uninject(pod map[string]any) (map[string]any, []string) {
	left := r.Clone()
	var warnings []string
	r.Tree().changed(pod, podschema.Pod(), nil, func(path *podschema.Path, v any) {
		delete(left.Set, path.String())
		warnings = append(warnings, fmt.Sprintf(changedSince, path.Readable(), podschema.Show(v)))
	})
	slices.Sort(warnings)
	return left.Base(pod), warnings
}

// changed calls found for each value that differs from the recorded one.
func (t *Tree) changed(v any, typ *podschema.Type, path *podschema.Path, found func(*podschema.Path, any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range t.In {
			if value := v[name]; value != nil {
				child.changedAt(value, typ.Child(name), path.In(typ, name), found)
			}
		}
	case []any:
		id, ok := typ.Identity()
		if !ok {
			return
		}
		for key, i := range t.Find(id, v) {
			t.In[key].changedAt(v[i], id.Elem, path.Key(key), found)
		}
	}
}

func (t *Tree) changedAt(v any, typ *podschema.Type, path *podschema.Path, found func(*podschema.Path, any)) {
	switch e := t.Entry; {
	case e != nil && e.Sum != "" && typ.IsOneAddition():
		if Sum(typ, v, t) != e.Sum {
			found(path, v)
		}
	case e == nil || e.Created:
		t.changed(v, typ, path, found)
	}
}
