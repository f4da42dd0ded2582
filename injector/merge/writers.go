package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Writers has the template that wrote each place of a pod. Nil means no writes. It is not safe for concurrent
// use.
type Writers struct {
	added []templateWrites
	// tree has the first built elements of added. Most pods get one template, and need no tree.
	tree  *writer
	built int
}

type templateWrites struct {
	template string
	writes   []Write
}

// Add adds the writes of a template.
func (w *Writers) Add(template string, writes []Write) {
	w.added = append(w.added, templateWrites{template, writes})
}

// root returns the tree, nil if no template was added. It works on nil.
func (w *Writers) root() *writer {
	if w == nil {
		return nil
	}
	if w.built < len(w.added) && w.tree == nil {
		w.tree = &writer{}
	}
	for ; w.built < len(w.added); w.built++ {
		w.tree.add(w.added[w.built])
	}
	return w.tree
}

// Copy returns writers that can be added to without changing w.
func (w *Writers) Copy() *Writers { return &Writers{added: slices.Clone(w.added)} }

// By returns the template that wrote the place of a keyed path, or an object or list around it, "" for none.
func (w *Writers) By(path []string) string {
	by, at := "", w.root()
	for _, segment := range path {
		if at = at.child(segment); at == nil {
			return by
		}
		if at.wrote {
			by = at.by
		}
	}
	return by
}

// replaces returns the template that replaced a whole object or list around the place, "" for none.
func (w *Writers) replaces(path *podschema.Path) string {
	segments, at := path.Segments(), w.root()
	for _, segment := range segments[:len(segments)-1] {
		if at = at.child(segment); at == nil {
			return ""
		}
		if at.whole {
			return at.by
		}
	}
	return ""
}

// writer is a node of a tree by the segments of keyed paths. Nil means no writes.
type writer struct {
	// by is the template of the present value, "" for none.
	by string
	// wrote is set if by wrote the value, and not if by agreed with it.
	wrote bool
	// value is by's value for an absent field, which equals the field's default.
	value any
	// deleted is set if by removed the value.
	deleted bool
	// first is set for an item that by put first.
	first bool
	in    map[string]*writer

	claim
}

// child returns the writer of a field or an item. It works on nil.
func (w *writer) child(segment string) *writer {
	if w == nil {
		return nil
	}
	return w.in[segment]
}

func (w *writer) add(t templateWrites) {
	for _, one := range t.writes {
		at := w
		for _, segment := range one.Path.Segments() {
			child := at.in[segment]
			if child == nil {
				child = &writer{}
				if at.in == nil {
					at.in = map[string]*writer{}
				}
				at.in[segment] = child
			}
			at = child
		}
		if one.Effect == Created || one.Effect == Derived {
			continue
		}
		if at.by == "" || one.Effect != Same {
			at.by, at.value = t.template, one.Value
		}
		at.wrote = at.wrote || one.Effect != Same
		if one.separator != "" {
			at.separator = one.separator
		}
		at.required = at.required || one.required
		gone := one.Effect == Removed || one.Effect == Same && one.Value == nil
		at.whole = at.whole || one.whole
		at.deleted, at.first, at.front = gone, at.first || one.First, max(at.front, one.front)
	}
}

// inside returns a template that wrote something below the place, "" for none. It works on nil.
func (w *writer) inside() string {
	if w == nil {
		return ""
	}
	var names []string
	for _, child := range w.in {
		if child.by != "" && child.wrote {
			names = append(names, child.by)
		} else if name := child.inside(); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// deletes returns a template that removed a part of a value, "" for none. It works on nil.
func (w *writer) deletes(n *fragment.Node) string {
	switch {
	case w == nil || n == nil:
		return ""
	case w.deleted:
		return w.by
	}
	var names []string
	for segment, child := range w.in {
		part := n.Field(segment)
		if n.Kind == fragment.List {
			part = n.Item(segment)
		}
		if name := child.deletes(part); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}
