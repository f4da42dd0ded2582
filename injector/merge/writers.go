package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Writers says which template wrote which place of a pod. Nil says that no template wrote anything. It is not
// safe for concurrent use.
type Writers struct {
	added []templateWrites
	// tree has the first so many of added. Most pods get one template, and need no tree.
	tree  *writer
	built int
}

type templateWrites struct {
	template string
	writes   []Write
}

// Add adds what a template wrote.
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

// By returns the template that wrote the place of a keyed path, or the whole around it; "" for none.
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

// replaces returns the template that put a whole object or list around the place, "" for none.
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

// writer is a node of a tree by the segments of keyed paths. Nil says that no template wrote anything.
type writer struct {
	// by is the template whose value stands at the place, "" for none.
	by string
	// wrote is set if by put the value there, and not if the pod had it already.
	wrote bool
	// value is the default that by wants, where nothing stands for it.
	value any
	// gone is set if by took away what stood there.
	gone bool
	// whole is set for an object or a list that by put there in the place of all that could be in it.
	whole bool
	// first is set for an item that by put first.
	first bool
	// front is how many bytes at the beginning of a text templates prepended.
	front int
	// required is set if a required template wants the value.
	required bool
	// separator is that of the texts that required templates joined, "" for none.
	separator string
	in        map[string]*writer
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
		if one.Effect == Made || one.Effect == Derived {
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
		at.gone, at.first, at.front = gone, at.first || one.First, max(at.front, one.front)
	}
}

// inside names a template that wrote something in the place, "" for none. It works on nil.
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

// deletes names a template that wants nothing where a value has something, "" for none. It works on nil.
func (w *writer) deletes(n *fragment.Node) string {
	switch {
	case w == nil || n == nil:
		return ""
	case w.gone:
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
