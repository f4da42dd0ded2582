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

// InjectKey is the annotation by which namespaces and pods ask for templates. An empty prefix is
// the default one.
func InjectKey(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/inject" }

// StatusKey is the annotation with the record of what was injected into a pod.
func StatusKey(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/status" }

// HashLabel is the label of pods with the hash of a template that they have.
func HashLabel(prefix, template string) string {
	return template + "." + cmp.Or(prefix, DefaultPrefix) + "/hash"
}

// RequiredLabel returns the key of the label that Pillion keeps on the namespaces that a
// required template selects. No namespace selector of a template may name it.
func RequiredLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/required" }
