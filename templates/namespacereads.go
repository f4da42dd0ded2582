package templates

import "k8s.io/apimachinery/pkg/labels"

// NamespaceReads are the keys of labels and annotations of namespaces that the templates of a
// set read. The annotations by which namespaces ask for templates and set parameters are not
// among them: every set reads those. It is immutable.
type NamespaceReads struct {
	// selected are the keys of labels that selectors name, labels those and the ones that
	// expressions name.
	selected, labels, annotations map[string]bool
	whole                         bool
}

func (r *NamespaceReads) add(e Entry) {
	t := e.Known()
	if t == nil {
		return
	}
	var selectors []labels.Selector
	if namespaces, _, ok := t.Match(); ok {
		selectors = append(selectors, namespaces)
	}
	if t.availableTo != nil {
		selectors = append(selectors, t.availableTo)
	}
	for _, exception := range t.exceptions {
		selectors = append(selectors, exception.namespace)
	}
	for _, s := range selectors {
		requirements, _ := s.Requirements()
		for _, requirement := range requirements {
			r.selected[requirement.Key()], r.labels[requirement.Key()] = true, true
		}
	}
	for _, key := range t.namespaceKeys.Labels {
		r.labels[key] = true
	}
	for _, key := range t.namespaceKeys.Annotations {
		r.annotations[key] = true
	}
	r.whole = r.whole || t.namespaceKeys.Whole
}

// addCanary adds what the choice of a canary reads, and what its version does.
func (r *NamespaceReads) addCanary(c Canary) {
	r.add(Entry{Name: c.Of, Template: c.Version})
	if c.Version == nil {
		return
	}
	requirements, _ := c.Template.canary.namespaces.Requirements()
	for _, requirement := range requirements {
		r.selected[requirement.Key()], r.labels[requirement.Key()] = true, true
	}
}

// Selected reports whether selectors name the key of a label.
func (r *NamespaceReads) Selected(label string) bool { return r.selected[label] }

// Label reports whether selectors or expressions name the key of a label.
func (r *NamespaceReads) Label(key string) bool { return r.labels[key] }

// Annotation reports whether expressions name the key of an annotation.
func (r *NamespaceReads) Annotation(key string) bool { return r.annotations[key] }

// Whole reports whether an expression reads more than keys: all labels, or all annotations.
func (r *NamespaceReads) Whole() bool { return r.whole }

// SelectsWithin reports whether selectors name no key but those that the selectors of the
// others do.
func (r *NamespaceReads) SelectsWithin(others *NamespaceReads) bool {
	return subset(r.selected, others.selected)
}

// Within reports whether no key is named but those of the others.
func (r *NamespaceReads) Within(others *NamespaceReads) bool {
	return r.SelectsWithin(others) && subset(r.labels, others.labels) && subset(r.annotations, others.annotations)
}

func subset(keys, of map[string]bool) bool {
	for key := range keys {
		if !of[key] {
			return false
		}
	}
	return true
}

// NamespaceReads returns what the templates of the set read of namespaces.
func (s *Set) NamespaceReads() *NamespaceReads { return s.reads }
