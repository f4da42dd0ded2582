package policy

import "time"

// Template has the facts about a template that the decision needs.
type Template struct {
	Name      string
	Suspended bool
	// Namespaced: the template is one of the pod's namespace, not of the cluster.
	Namespaced bool
	// Required templates are injected whatever the annotations say.
	Required bool
	// Audience says which namespaces may have it; nil is every namespace.
	Audience Audience
	// Exceptions are those of a required template; nil is none.
	Exceptions Exceptions
	// Broken says why there is no good version, and is nil if there is one. SkipBroken
	// admits pods without it, by its onError.
	Broken     error
	SkipBroken bool
}

// Audience reports whether a namespace with these labels may have a template.
type Audience interface {
	AvailableTo(namespaceLabels map[string]string) bool
}

// Exceptions says which pods may go without a required template.
type Exceptions interface {
	// Excepted returns the exception that selects a pod by its labels and its namespace's, with a
	// sentence for people, and reports whether it is in force at a time. The name is empty if no
	// exception selects the pod.
	Excepted(namespace, pod map[string]string, now time.Time) (exception, why string, ok bool)
}

// Catalog has the templates in force. The place of a template is its index in the order in
// which templates are injected. Nothing but At and Len takes longer the more templates there
// are that a pod has nothing to do with.
type Catalog interface {
	Len() int
	At(place int) Template
	Place(name string) (place int, ok bool)
	// CanaryOf returns the template that a canary of this name is one of. Pods cannot ask for a
	// canary.
	CanaryOf(name string) (stable string, ok bool)
	// Defaults returns the places of the templates that are injected by default, Required those
	// of the required ones, in order.
	Defaults() []int
	Required() []int
	// Matching returns the places of the templates that match a pod in a namespace by
	// their labels, in order. Required ones see requiredPod, the others pod.
	Matching(namespace, pod, requiredPod map[string]string) []int
	// Selecting returns the places of the templates whose match selects a namespace with these
	// labels, whatever the pods are, in no order.
	Selecting(namespace map[string]string) []int
}
