package record

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Base returns the pod as its author wrote it: without the recorded values, the record and Pillion's
// [LabelKeys], and with the original values. It removes the value at each recorded place even if it has changed
// since. Base does not modify the pod, and shares unchanged parts with it.
//
// It removes empty labels and annotations, unless the record says that the author wrote them.
func (r Record) Base(pod map[string]any) map[string]any {
	before, _ := pod["metadata"].(map[string]any)
	if len(r.Set) == 0 && !r.marks(before) {
		return pod
	}
	tree := r.Tree()
	base := tree.object(pod, podschema.Pod())
	metadata, _ := base["metadata"].(map[string]any)
	if metadata = maps.Clone(metadata); metadata == nil {
		return base
	}
	for _, section := range []string{"annotations", "labels"} {
		had, _ := before[section].(map[string]any)
		left, _ := metadata[section].(map[string]any)
		left = r.withoutOwn(section, left)
		switch t := tree.Child("metadata").Child(section); {
		case len(left) > 0:
			metadata[section] = left
		case t != nil && t.Entry != nil && t.Entry.Created:
			restore(metadata, section, t.Entry)
		case len(had) > 0:
			delete(metadata, section)
		}
	}
	if t := tree.Child("metadata"); len(metadata) == 0 && t != nil && t.Entry != nil {
		base = maps.Clone(base)
		restore(base, "metadata", t.Entry)
	} else {
		base = maps.Clone(base)
		base["metadata"] = metadata
	}
	return base
}

// marks reports whether the metadata have an annotation or a label of Pillion's own.
func (r Record) marks(metadata map[string]any) bool {
	for _, section := range []string{"annotations", "labels"} {
		entries, _ := metadata[section].(map[string]any)
		if len(r.withoutOwn(section, entries)) < len(entries) {
			return true
		}
	}
	return false
}

// restore restores the original value of a field.
func restore(object map[string]any, name string, e *Entry) {
	if e.Had {
		object[name] = e.Was
	} else {
		delete(object, name)
	}
}

// withoutOwn returns the annotations without the record, or the labels without Pillion's own.
func (r Record) withoutOwn(section string, entries map[string]any) map[string]any {
	own := func(key string) bool {
		if section == "annotations" {
			return key == v1alpha1.StatusKey
		}
		_, is := OwnLabel(key)
		return is
	}
	left := entries
	for key := range entries {
		if own(key) {
			if len(left) == len(entries) {
				left = maps.Clone(entries)
			}
			delete(left, key)
		}
	}
	return left
}

// before returns the original value of a place with the value v of type t, and whether there was one.
func (t *Tree) before(v any, typ *podschema.Type) (was any, there bool) {
	if e := t.Entry; e != nil && !e.Created {
		return e.Was, e.Had
	}
	switch w := v.(type) {
	case map[string]any:
		fields := t.object(w, typ)
		if t.Entry != nil && onlyDefaults(fields, typ) {
			return t.Entry.Was, t.Entry.Had
		}
		return fields, true
	case []any:
		items := t.list(w, typ)
		if t.Entry != nil && len(items) == 0 {
			return t.Entry.Was, t.Entry.Had
		}
		return items, true
	}
	return v, true
}

func onlyDefaults(object map[string]any, t *podschema.Type) bool {
	for name := range object {
		if !podschema.IsDefault(t, name, object) {
			return false
		}
	}
	return true
}

// object returns an object of type typ without the tree's entries. It works on nil.
func (t *Tree) object(v map[string]any, typ *podschema.Type) map[string]any {
	if t == nil || len(t.In) == 0 {
		return v
	}
	v = maps.Clone(v)
	if v == nil {
		v = map[string]any{}
	}
	for name, child := range t.In {
		ft := typ.Child(name)
		value, have := v[name]
		was, there := any(nil), false
		if have {
			was, there = child.before(value, ft)
		} else {
			was, there = child.beforeAbsent(ft)
		}
		if there {
			v[name] = was
		} else {
			delete(v, name)
		}
	}
	return v
}

// beforeAbsent is before for a place without a value: it returns the value that Pillion removed.
func (t *Tree) beforeAbsent(typ *podschema.Type) (was any, there bool) {
	if t.Entry != nil {
		return t.Entry.Was, t.Entry.Had
	}
	if typ != nil && typ.Kind() == podschema.List {
		items := t.list(nil, typ)
		return items, len(items) > 0
	}
	fields := t.object(nil, typ)
	return fields, len(fields) > 0
}

func (t *Tree) list(v []any, typ *podschema.Type) []any {
	id, ok := typ.Identity()
	if !ok || len(t.In) == 0 {
		return v
	}
	meant := map[int]*Tree{}
	for key, i := range t.Find(id, v) {
		meant[i] = t.In[key]
	}
	kept := make([]any, 0, len(v))
	for i, item := range v {
		child := meant[i]
		if child == nil {
			kept = append(kept, item)
		} else if was, there := child.before(item, id.Elem); there {
			kept = append(kept, was)
		}
	}
	return t.insertGone(kept, id)
}

// insertGone inserts the items that Pillion removed, unless they are back already.
func (t *Tree) insertGone(items []any, id podschema.Identity) []any {
	var gone []RemovedItem
	keys := map[string]bool{}
	for key, child := range t.In {
		if child.Entry == nil || len(child.Entry.RemovedItems) == 0 {
			continue
		}
		keys[key] = true
		gone = append(gone, child.Entry.RemovedItems...)
	}
	if len(gone) == 0 {
		return items
	}
	back := map[string]bool{}
	for _, item := range items {
		if key, ok := id.Key(item); ok && keys[podschema.RecordKey(key)] {
			back[key] = true
		}
	}
	gone = slices.DeleteFunc(gone, func(g RemovedItem) bool {
		key, ok := id.Key(g.Item)
		return ok && back[key]
	})
	slices.SortStableFunc(gone, func(a, b RemovedItem) int { return cmp.Compare(a.At, b.At) })
	all := make([]any, 0, len(items)+len(gone))
	for _, g := range gone {
		if more := min(g.At-len(all), len(items)); more > 0 {
			all, items = append(all, items[:more]...), items[more:]
		}
		all = append(all, g.Item)
	}
	return append(all, items...)
}
