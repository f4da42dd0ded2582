package templates

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// NamespaceReads are the keys of labels and annotations of namespaces that the templates of a
// set read. The annotations by which namespaces ask for templates and set parameters are not
// among them: every set reads those. It is immutable.
type NamespaceReads struct {
	// selected are the keys of labels that selectors name, labels those and the ones that
	// expressions name.
	selected, labels, annotations sets.Set[string]
	whole                         bool
}

func newNamespaceReads() *NamespaceReads {
	return &NamespaceReads{selected: sets.New[string](), labels: sets.New[string](), annotations: sets.New[string]()}
}

func (r *NamespaceReads) add(e Entry) {
	t := e.Known()
	if t == nil {
		return
	}
	if namespaces, _, ok := t.Match(); ok {
		r.addSelector(namespaces)
	}
	if t.availableTo != nil {
		r.addSelector(t.availableTo)
	}
	for _, exception := range t.exceptions {
		r.addSelector(exception.namespace)
	}
	r.labels.Insert(t.namespaceKeys.Labels...)
	r.annotations.Insert(t.namespaceKeys.Annotations...)
	r.whole = r.whole || t.namespaceKeys.Whole
}

func (r *NamespaceReads) addSelector(namespaces labels.Selector) {
	requirements, _ := namespaces.Requirements()
	for _, requirement := range requirements {
		r.selected.Insert(requirement.Key())
		r.labels.Insert(requirement.Key())
	}
}

// addCanary adds what the choice of a canary reads, and what its version does.
func (r *NamespaceReads) addCanary(c Canary) {
	r.add(Entry{Name: c.Of, Template: c.Version})
	if c.Version != nil {
		r.addSelector(c.Template.canary.namespaces)
	}
}

// Selected reports whether selectors name the key of a label.
func (r *NamespaceReads) Selected(label string) bool { return r.selected.Has(label) }

// Label reports whether selectors or expressions name the key of a label.
func (r *NamespaceReads) Label(key string) bool { return r.labels.Has(key) }

// Annotation reports whether expressions name the key of an annotation.
func (r *NamespaceReads) Annotation(key string) bool { return r.annotations.Has(key) }

// Whole reports whether an expression reads more than keys: all labels, or all annotations.
func (r *NamespaceReads) Whole() bool { return r.whole }

// SelectsWithin reports whether selectors name no key but those that the selectors of the
// others do.
func (r *NamespaceReads) SelectsWithin(others *NamespaceReads) bool {
	return others.selected.IsSuperset(r.selected)
}

// Within reports whether no key is named but those of the others.
func (r *NamespaceReads) Within(others *NamespaceReads) bool {
	return r.SelectsWithin(others) && others.labels.IsSuperset(r.labels) && others.annotations.IsSuperset(r.annotations)
}

// NamespaceReads returns what the templates of the set read of namespaces.
func (s *Set) NamespaceReads() *NamespaceReads { return s.reads }
