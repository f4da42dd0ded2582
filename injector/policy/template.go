package policy

import (
	"k8s.io/apimachinery/pkg/labels"
)

// Template has the facts about a template that the decision needs.
type Template struct {
	Name string
	// Namespaced: the template is one of the pod's namespace, not of the cluster.
	Namespaced bool
	Suspended  bool
	// Required templates that match are injected whatever the annotations say.
	Required        bool
	InjectByDefault bool
	// Namespaces and Pods select the pods that get the template without asking. Both are nil if there are none.
	Namespaces, Pods labels.Selector
	// Available: the pod's namespace may have the template.
	Available bool
	// Exception is that of a required template that selects the pod, or nil.
	Exception *Exception
	// Broken says why there is no good version, and is nil if there is one. SkipBroken
	// admits pods without it, by its onError.
	Broken     error
	SkipBroken bool
}

// Exception lets a pod go without a required template.
type Exception struct {
	Name string
	// Why is a sentence for people.
	Why string
	// Ended: the template is required again.
	Ended bool
}

// matches reports whether the template selects the pod, and whether it selects the namespace.
func (t *Template) matches(r Request) (pod, namespace bool) {
	if t.Namespaces == nil || !t.Namespaces.Matches(labels.Set(r.NamespaceLabels)) {
		return false, false
	}
	podLabels := r.PodLabels
	if t.Required {
		podLabels = r.RequiredPodLabels
	}
	return t.Pods.Matches(labels.Set(podLabels)), true
}
