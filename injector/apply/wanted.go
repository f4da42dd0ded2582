package apply

import (
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Wanted is a pod with templates merged into it, and what they wrote.
type Wanted struct {
	Pod  map[string]any
	root node
}

// node is a place in which templates wrote, or around such places.
type node struct {
	path *podschema.Path
	// template was the first to write the place, "" for none.
	template string
	// entry is nil if no template wrote the place itself.
	entry  *record.Entry
	effect merge.Effect
	in     map[string]*node
}

func (n *node) child(segment string) *node {
	if n == nil {
		return nil
	}
	return n.in[segment]
}

func (n *node) segments() []string {
	all := make([]string, 0, len(n.in))
	for segment := range n.in {
		all = append(all, segment)
	}
	slices.Sort(all)
	return all
}

// Add adds what a template wrote. Templates are added in their order.
func (w *Wanted) Add(template string, writes []merge.Write) {
	for _, one := range writes {
		if one.Effect == merge.Same {
			continue
		}
		n := w.enter(one.Path)
		entry := entryOf(one)
		if n.entry != nil {
			// What stood there before the first template stays the original.
			entry.Was, entry.Had, entry.Gone = n.entry.Was, n.entry.Had, slices.Concat(n.entry.Gone, entry.Gone)
		}
		if n.entry == nil || n.effect == merge.Derived {
			n.effect, n.template = one.Effect, template
		} else if one.Effect == merge.Removed {
			n.effect = one.Effect
		}
		n.entry = &entry
		if image := imageOf(one); image != "" {
			n := w.enter(one.Path.Field("image"))
			n.entry, n.effect, n.template = &record.Entry{Sum: record.Sum(nil, image, nil)}, merge.Added, template
		}
	}
}

func (w *Wanted) enter(path *podschema.Path) *node {
	if path == nil {
		return &w.root
	}
	up := w.enter(path.Parent())
	n := up.in[path.Name()]
	if n == nil {
		n = &node{path: path}
		if up.in == nil {
			up.in = map[string]*node{}
		}
		up.in[path.Name()] = n
	}
	return n
}

func entryOf(w merge.Write) record.Entry {
	e := record.Entry{Was: w.Was, Had: w.Had, Made: w.Effect == merge.Made}
	if w.Effect == merge.Derived && w.Type != nil {
		e.Made = true // the API server makes the object, to hold what it derives
	}
	if w.Value != nil {
		e.Sum = record.Sum(w.Type, w.Value, nil)
	}
	for _, g := range w.Gone {
		e.Gone = append(e.Gone, record.Gone{At: g.At, Item: g.Item})
	}
	return e
}

// imageOf returns the image of a container that a template put there, "" for anything else.
func imageOf(w merge.Write) string {
	if !w.Type.IsContainer() {
		return ""
	}
	container, _ := w.Value.(map[string]any)
	image, _ := container["image"].(string)
	return image
}

// AddTo adds the entries to a record, where that has none for the place.
func (w *Wanted) AddTo(r record.Record) { w.root.addTo(r) }

func (n *node) addTo(r record.Record) {
	if n.entry != nil {
		if _, there := r.Set[n.path.String()]; !there {
			r.Set[n.path.String()] = *n.entry
		}
	}
	for _, child := range n.in {
		child.addTo(r)
	}
}
