package templates

import "cmp"

// The values of the label that [InjectionLabel] names. A namespace without the label is not
// Pillion's business, unless a pod itself asks.
const (
	// InjectionEnabled: API servers call Pillion for the namespace's pods, and a failure of
	// the call lets the pod through.
	InjectionEnabled = "enabled"
	// InjectionEnforced: the same, and a failure of the call refuses the pod.
	InjectionEnforced = "enforced"
	// InjectionDisabled: Pillion is never called, whatever anything asks.
	InjectionDisabled = "disabled"
)

// InjectionLabel returns the key of the label that says what API servers do for the pods of
// a namespace: PREFIX/injection.
func InjectionLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/injection" }
