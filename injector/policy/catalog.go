package policy

// Template has the facts about a template that the decision needs.
type Template struct {
	Name            string
	InjectByDefault bool
	Suspended       bool
	// Required templates are injected whatever the annotations say.
	Required bool
	// Audience says which namespaces may have it; nil is every namespace.
	Audience Audience
	// Broken says why there is no good version, and is nil if there is one. SkipBroken
	// admits pods without it, by its onError.
	Broken     error
	SkipBroken bool
}

// Audience reports whether a namespace with these labels may have a template.
type Audience interface {
	AvailableTo(namespaceLabels map[string]string) bool
}

// Catalog has the templates in force. The place of a template is its index in the order in
// which templates are injected. Nothing but At and Len takes longer the more templates there
// are that a pod has nothing to do with.
type Catalog interface {
	Len() int
	At(place int) Template
	Place(name string) (place int, ok bool)
	// Defaults returns the places of the templates with InjectByDefault, Required those of
	// the required ones, in order.
	Defaults() []int
	Required() []int
	// Matching returns the places of the templates that match a pod in a namespace by
	// their labels, in order. Required ones see requiredPod, the others pod.
	Matching(namespace, pod, requiredPod map[string]string) []int
}
