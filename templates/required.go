package templates

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// RequiredLabel returns the key of the label that Pillion keeps on the namespaces that a
// required template selects. No namespace selector of a template may name it.
func RequiredLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/required" }

// VerifiedIn reports whether final pods of a namespace are verified: a required template
// selects it. Of a template without a good version the selector counts as far as it is
// known, since its pods are refused. A suspended template verifies nothing.
//
// A namespace without a name is one that the API server has yet to name, from its
// generateName. The label kubernetes.io/metadata.name then says nothing, and whatever a
// selector needs of it counts as met.
func (s *Set) VerifiedIn(namespace Namespace) bool {
	return s.selects(namespace, true)
}

// MatchedIn reports whether a template in force selects the namespace without being asked
// for, whatever the labels of its pods are. Suspended templates and required ones do not
// count: for these there is [Set.VerifiedIn], which also says what a namespace without a
// name is.
func (s *Set) MatchedIn(namespace Namespace) bool {
	return s.selects(namespace, false)
}

// selects reports whether an entry that is not suspended selects the namespace, of those that
// are required or of the others.
func (s *Set) selects(namespace Namespace, required bool) bool {
	if s.own != nil && s.own.selects(namespace, required) {
		return true
	}
	found := false
	is := func(place int) bool {
		e := s.entries[place]
		found = e.Required() == required && !e.Suspended()
		return !found
	}
	if namespace.Name != "" {
		s.selecting.each(namespace.Labels, nil, is)
		return found
	}
	for place, selected := range s.selecting.selected {
		if mayMatch(selected.namespace, namespace.Labels) && !is(place) {
			break
		}
	}
	return found
}

// mayMatch reports whether a selector may match a namespace that has yet to get its name.
func mayMatch(selector labels.Selector, namespace map[string]string) bool {
	requirements, selectable := selector.Requirements()
	for _, r := range requirements {
		if r.Key() != corev1.LabelMetadataName && !r.Matches(labels.Set(namespace)) {
			return false
		}
	}
	return selectable
}
