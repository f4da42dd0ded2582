package templates

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// selecting finds the entries of a set by what they select of namespaces. It is made when it
// is first asked for: the way of a pod does without it.
type selecting struct {
	once  sync.Once
	index index
}

// bySelection returns the index of the entries by the namespaces that their match selects.
func (s *Set) bySelection() *index {
	s.selecting.once.Do(func() {
		all := map[int]selected{}
		for place, e := range s.entries {
			if namespaces, _, ok := e.Match(); ok {
				all[place] = selected{namespaces, labels.Everything()}
			}
		}
		s.selecting.index = newIndex(all)
	})
	return &s.selecting.index
}

// Selecting returns the places of the entries whose match selects a namespace with these
// labels, whatever the pods are, in no order.
func (s *Set) Selecting(namespace map[string]string) []int {
	found := s.bySelection().find(nil, namespace, nil)
	if s.own != nil {
		found = s.following(found, s.own.Selecting(namespace))
	}
	return found
}
