package templates

import "cmp"

// RequiredLabel returns the key of the label that Pillion keeps on the namespaces that a
// required template selects. No namespace selector of a template may name it.
func RequiredLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/required" }

// VerifiedIn reports whether final pods of a namespace with these labels are verified: a
// required template selects it. Of a template without a good version the selector counts as
// far as it is known, since its pods are refused. A suspended template verifies nothing.
func (s *Set) VerifiedIn(namespace map[string]string) bool {
	return s.selects(namespace, true)
}

// MatchedIn reports whether a template in force selects the namespace with these labels
// without being asked for, whatever the labels of its pods are. Suspended templates and
// required ones do not count: for these there is [Set.VerifiedIn].
func (s *Set) MatchedIn(namespace map[string]string) bool {
	return s.selects(namespace, false)
}

// selects reports whether an entry that is not suspended selects the namespace, of those that
// are required or of the others.
func (s *Set) selects(namespace map[string]string, required bool) bool {
	found := false
	s.bySelection().each(namespace, nil, func(place int) bool {
		e := s.entries[place]
		found = e.Required() == required && !e.Suspended()
		return !found
	})
	return found
}

// Suspended reports whether the template is injected nowhere, as far as that is known.
func (e Entry) Suspended() bool {
	if e.Template != nil {
		return e.Template.Policies().Suspend
	}
	b := e.Broken()
	return b != nil && b.Suspend
}
