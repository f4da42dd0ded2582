package templates

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"
)

// RequiredLabel returns the key of the label that Pillion keeps on the namespaces that a
// required template selects. No namespace selector of a template may name it.
func RequiredLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/required" }

// RequiredNamespaces returns the selectors of the namespaces in which final pods are
// verified: those of every required template in match. Of a template without a good version
// the selector counts as far as it is known, since its pods are refused. A suspended
// template verifies nothing.
func (s *Set) RequiredNamespaces() []labels.Selector {
	var all []labels.Selector
	for _, e := range s.entries {
		if !e.Required() || e.suspended() {
			continue
		}
		if namespaces, ok := e.matchedNamespaces(); ok {
			all = append(all, namespaces)
		}
	}
	return all
}

// suspended reports whether the template is injected nowhere, as far as that is known.
func (e Entry) suspended() bool {
	if e.Template != nil {
		return e.Template.Policies().Suspend
	}
	b := e.Broken()
	return b != nil && b.Suspend
}

// matchedNamespaces returns the selector of the namespaces in which the template is injected
// without being asked for; false if there is none, or it is not known.
func (e Entry) matchedNamespaces() (labels.Selector, bool) {
	if e.Template != nil {
		namespaces, _, ok := e.Template.Match()
		return namespaces, ok
	}
	if b := e.Broken(); b != nil {
		namespaces, _, ok := b.Match()
		return namespaces, ok
	}
	return nil, false
}
