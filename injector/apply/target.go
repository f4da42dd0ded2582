package apply

import (
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Target is the base pod with templates merged into it, and their writes.
type Target struct {
	Pod  map[string]any
	root node
}

// node is a place that templates wrote, or an object or list around such places.
type node struct {
	path *podschema.Path
	// template is the first template that wrote the place, "" for none.
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

// Add adds the writes of a template. Templates are added in their order.
func (w *Target) Add(template string, writes []merge.Write) {
	for _, one := range writes {
		if one.Effect == merge.Same {
			continue
		}
		n := w.enter(one.Path)
		entry := entryOf(one)
		if n.entry != nil {
			// The original is the value before the first template.
			entry.Was, entry.Had, entry.RemovedItems = n.entry.Was, n.entry.Had, slices.Concat(n.entry.RemovedItems, entry.RemovedItems)
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

func (w *Target) enter(path *podschema.Path) *node {
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
	e := record.Entry{Was: w.Was, Had: w.Had, Created: w.Effect == merge.Created}
	if w.Value != nil {
		e.Sum = record.Sum(w.Type, w.Value, nil)
	}
	for _, g := range w.RemovedItems {
		e.RemovedItems = append(e.RemovedItems, record.RemovedItem{At: g.At, Item: g.Item})
	}
	return e
}

// imageOf returns the image of a container that a template added, "" for any other write.
func imageOf(w merge.Write) string {
	if !w.Type.IsContainer() {
		return ""
	}
	container, _ := w.Value.(map[string]any)
	image, _ := container["image"].(string)
	return image
}

// AddTo adds the entries to a record. Entries that the record already has stay.
func (w *Target) AddTo(r record.Record) { w.root.addTo(r) }

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
