package merge

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Base returns the pod as it would be without Pillion: without the items that
// the status lists and without the status annotation, with overwritten
// originals restored. It is a view: the pod is not modified, and shares with
// the result what is the same in both.
//
// Objects and lists that were made to hold items go when nothing is left in
// them but what the API server's defaulting adds. Paths that lead nowhere are
// ignored.
func Base(pod map[string]any, st Status) map[string]any {
	root := &undo{}
	for _, a := range st.Templates {
		root.add(a)
	}
	if st.key != "" {
		root.at(join("/metadata/annotations", st.key)).remove = true
	}
	return root.object(pod, known().pod)
}

// undo says what to take back at one place of the pod and below it.
type undo struct {
	kids     map[string]*undo // by escaped segment
	remove   bool
	created  bool
	restore  bool
	original any
	removed  []takenOut
}

// takenOut is an item that a template took out of a list.
type takenOut struct {
	template string
	Removed
}

// at returns the node of a keyed path, made if need be.
func (u *undo) at(path string) *undo {
	for _, segment := range strings.Split(path, "/")[1:] {
		if u.kids == nil {
			u.kids = map[string]*undo{}
		}
		kid, ok := u.kids[segment]
		if !ok {
			kid = &undo{}
			u.kids[segment] = kid
		}
		u = kid
	}
	return u
}

// find returns the node of a keyed path, nil if nothing is to be taken back there
// or below.
func (u *undo) find(path string) *undo {
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if u = u.kids[segment]; u == nil {
			return nil
		}
	}
	return u
}

func (u *undo) add(a Applied) {
	for _, path := range a.Items {
		u.noteItem(path)
	}
	created := map[string]bool{}
	for _, path := range a.Created {
		u.noteCreated(path)
		created[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(a.Overwrote)) {
		u.noteOriginal(path, a.Overwrote[path], created[path])
	}
	for path, removed := range a.Removed {
		for _, r := range removed {
			u.noteRemoved(path, a.Name, r)
		}
	}
}

func (u *undo) noteItem(path string) {
	if inside(path) {
		u.at(path).remove = true
	}
}

func (u *undo) noteCreated(path string) {
	if inside(path) || path == "/spec" || path == "/metadata" {
		u.at(path).created = true
	}
}

// noteOriginal takes in what stood at path; created tells that the same template
// made what stands there now.
func (u *undo) noteOriginal(path string, v any, created bool) {
	if inside(path) || created && v == nil {
		n := u.at(path)
		n.restore, n.original = true, v
	}
}

func (u *undo) noteRemoved(list, template string, r Removed) {
	if inside(list) {
		n := u.at(list)
		n.removed = append(n.removed, takenOut{template: template, Removed: r})
	}
}

// inside reports whether path leads to something inside the pod's metadata or
// spec: whatever a status says, the view keeps both.
func inside(path string) bool {
	return strings.HasPrefix(path, "/spec/") || strings.HasPrefix(path, "/metadata/")
}

// value returns what v, of type t, was; gone means that it was not there.
func (u *undo) value(v any, t *podschema.Type) (was any, gone bool) {
	switch {
	case u.restore && !u.created:
		return u.original, false
	case u.remove && !u.restore:
		return nil, true
	}
	switch w := v.(type) {
	case map[string]any:
		fields := u.object(w, t)
		return u.unlessCreated(fields, onlyDefaults(fields, t))
	case []any:
		items := u.list(w, t)
		return u.unlessCreated(items, len(items) == 0)
	default:
		return v, false
	}
}

// unlessCreated returns v, or what was there before if v was made to hold items
// and holds nothing any more.
func (u *undo) unlessCreated(v any, empty bool) (was any, gone bool) {
	if !u.created || !empty {
		return v, false
	}
	return nil, !u.restore
}

func onlyDefaults(object map[string]any, t *podschema.Type) bool {
	for name := range object {
		if !isDefault(t, name, object) {
			return false
		}
	}
	return true
}

func (u *undo) object(v map[string]any, t *podschema.Type) map[string]any {
	if len(u.kids) == 0 {
		return v
	}
	v = maps.Clone(v)
	if v == nil {
		v = map[string]any{}
	}
	for segment, kid := range u.kids {
		name := segmentUnescaper.Replace(segment)
		value, ok := v[name]
		if !ok {
			kid.intoAbsent(v, name)
			continue
		}
		if was, gone := kid.value(value, child(t, name)); gone {
			delete(v, name)
		} else {
			v[name] = was
		}
	}
	return v
}

// intoAbsent restores a field that the pod no longer has.
func (u *undo) intoAbsent(v map[string]any, name string) {
	if u.restore && !u.created {
		v[name] = u.original
	} else if len(u.removed) > 0 {
		v[name] = u.reinsert(nil, identity{})
	}
}

func (u *undo) list(v []any, t *podschema.Type) []any {
	id, ok := known().identityOf(t)
	if !ok || len(u.kids)+len(u.removed) == 0 {
		return v
	}
	kept := make([]any, 0, len(v))
	done := map[*undo]bool{}
	for _, item := range v {
		kid := u.kidOf(id, item)
		// Of several items of one key, the first is meant, as it was when the
		// status was written.
		if kid == nil || done[kid] {
			kept = append(kept, item)
			continue
		}
		done[kid] = true
		if was, gone := kid.value(item, id.elem); !gone {
			kept = append(kept, was)
		}
	}
	return u.reinsert(kept, id)
}

func (u *undo) kidOf(id identity, item any) *undo {
	if len(u.kids) == 0 {
		return nil
	}
	key, ok := id.key(item)
	if !ok {
		return nil
	}
	return u.kids[segmentEscaper.Replace(key)]
}

// reinsert puts removed items back, unless somebody else did.
func (u *undo) reinsert(items []any, id identity) []any {
	if len(u.removed) == 0 {
		return items
	}
	have := map[string]bool{}
	for _, item := range items {
		if key, ok := id.key(item); ok {
			have[key] = true
		}
	}
	slices.SortStableFunc(u.removed, func(a, b takenOut) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.template, b.template))
	})
	for _, r := range u.removed {
		if key, ok := id.key(r.Value); ok && have[key] {
			continue
		}
		items = slices.Insert(items, min(max(r.At, 0), len(items)), r.Value)
	}
	return items
}
