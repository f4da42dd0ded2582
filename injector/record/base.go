package record

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Base returns the pod as its author wrote it: without the places in the record, without
// the annotation and without Pillion's [LabelKeys], originals restored. It is a view: the pod
// is not modified, and shares with the result what is the same in both.
//
// Objects and lists that Pillion made go when nothing is left in them but what
// the API server's defaulting adds, and so do labels and annotations of which all are
// Pillion's, unless the record says that they were empty. Places that lead nowhere are
// ignored.
func (r Record) Base(pod map[string]any) map[string]any {
	bare := LabelKeysOf(r.key).Without(withoutAnnotation(pod, r.key))
	before, _ := pod["metadata"].(map[string]any)
	base := r.Root.object(bare, podschema.Pod())
	metadata, _ := base["metadata"].(map[string]any)
	for _, section := range []string{"annotations", "labels"} {
		had, _ := before[section].(map[string]any)
		left, ok := metadata[section].(map[string]any)
		if p := r.Root.Child("metadata").Child(section); ok && len(left) == 0 && len(had) > 0 && (p == nil || !p.Made) {
			delete(metadata, section) // bare has metadata of its own, since something was taken out
		}
	}
	return base
}

// withoutAnnotation returns the pod without the annotation of that key.
func withoutAnnotation(pod map[string]any, key string) map[string]any {
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if _, ok := annotations[key]; !ok {
		return pod
	}
	pod, metadata, annotations = maps.Clone(pod), maps.Clone(metadata), maps.Clone(annotations)
	delete(annotations, key)
	metadata["annotations"], pod["metadata"] = annotations, metadata
	return pod
}

// before returns the value that stood at the place before Pillion, where v of
// type t stands now; gone reports that nothing stood there.
func (p *Place) before(v any, t *podschema.Type) (was any, gone bool) {
	if p.Owns() {
		if len(p.Was) > 0 {
			return p.Was[0], false
		}
		return nil, true
	}
	switch w := v.(type) {
	case map[string]any:
		fields := p.object(w, t)
		if p.Made && onlyDefaults(fields, t) {
			return p.unmade()
		}
		return fields, false
	case []any:
		items := p.list(w, t)
		if p.Made && len(items) == 0 {
			return p.unmade()
		}
		return items, false
	default:
		return v, false
	}
}

func (p *Place) unmade() (was any, gone bool) {
	if len(p.Was) > 0 {
		return p.Was[0], false
	}
	return nil, true
}

func onlyDefaults(object map[string]any, t *podschema.Type) bool {
	for name := range object {
		if !podschema.IsDefault(t, name, object) {
			return false
		}
	}
	return true
}

func (p *Place) object(v map[string]any, t *podschema.Type) map[string]any {
	if len(p.In) == 0 {
		return v
	}
	v = maps.Clone(v)
	if v == nil {
		v = map[string]any{}
	}
	for name, child := range p.In {
		value, have := v[name]
		if !have {
			child.intoAbsent(v, name)
			continue
		}
		if was, gone := child.before(value, t.Child(name)); gone {
			delete(v, name)
		} else {
			v[name] = was
		}
	}
	return v
}

// intoAbsent restores a field that the pod no longer has.
func (p *Place) intoAbsent(v map[string]any, name string) {
	if len(p.Was) > 0 && !p.Made {
		v[name] = p.Was[0]
	} else if len(p.Removed) > 0 {
		v[name] = p.reinsert(nil, podschema.Identity{})
	}
}

func (p *Place) list(v []any, t *podschema.Type) []any {
	id, ok := t.Identity()
	if !ok || len(p.In)+len(p.Removed) == 0 {
		return v
	}
	meant := make(map[int]*Place, min(len(p.In), len(v)))
	for key, i := range Match(p, id, v, p.In) {
		meant[i] = p.In[key]
	}
	kept := v
	if len(meant) > 0 {
		kept = make([]any, 0, len(v))
		for i, item := range v {
			child := meant[i]
			if child == nil {
				kept = append(kept, item)
			} else if was, gone := child.before(item, id.Elem); !gone {
				kept = append(kept, was)
			}
		}
	}
	return p.reinsert(kept, id)
}

// reinsert puts removed items back, unless somebody else did.
func (p *Place) reinsert(items []any, id podschema.Identity) []any {
	if len(p.Removed) == 0 {
		return items
	}
	keys := map[string]bool{}
	for _, r := range p.Removed {
		if key, ok := id.Key(r.Value); ok {
			keys[key] = true
		}
	}
	have := podschema.IndexIn(id, items, keys)
	removed := slices.DeleteFunc(slices.Clone(p.Removed), func(r Removed) bool {
		key, ok := id.Key(r.Value)
		_, back := have[key]
		return ok && back
	})
	slices.SortStableFunc(removed, func(a, b Removed) int { return cmp.Compare(a.At, b.At) })
	return insertAll(items, removed)
}

// insertAll puts items into a list, each at its index in the list that the earlier ones have
// made, or behind the one before. The indexes must not descend.
func insertAll(items []any, removed []Removed) []any {
	all := make([]any, 0, len(items)+len(removed))
	for _, r := range removed {
		if more := min(r.At-len(all), len(items)); more > 0 {
			all, items = append(all, items[:more]...), items[more:]
		}
		all = append(all, r.Value)
	}
	return append(all, items...)
}
