package policy

import (
	"k8s.io/apimachinery/pkg/labels"
)

// Template has the facts about a template that decide.
type Template struct {
	Name string
	// Namespaced is set for a template of the pod's namespace.
	Namespaced bool
	Suspended  bool
	// Required templates that match are injected whatever the annotations say.
	Required        bool
	InjectByDefault bool
	// Match selects the pods that get the template without a request. It is nil if the template has no match.
	Match *Match
	// Available is set if the pod's namespace may have the template.
	Available bool
	// Exception is the exception of a required template that selects the pod, or nil.
	Exception *Exception
	// Broken is the reason why there is no good version, or nil. SkipBroken admits pods without the template,
	// as its onError says.
	Broken     error
	SkipBroken bool
}

// Match selects pods by their namespace's labels and their own.
type Match struct{ Namespaces, Pods labels.Selector }

// Exception exempts a pod from a required template.
type Exception struct {
	Name string
	// Why is a sentence for people.
	Why string
	// Ended is set if the template is required again.
	Ended bool
}

// selection is the part of a request that a template's match selects.
type selection int

const (
	selectsNothing selection = iota
	// selectsNamespace: it selects the namespace, but not the pod.
	selectsNamespace
	// selectsPod: it selects the namespace and the pod.
	selectsPod
)

// selection compares the template's match with the labels of the namespace and of the pod.
func (t *Template) selection(r Request) selection {
	if t.Match == nil || !t.Match.Namespaces.Matches(labels.Set(r.Namespace.Labels)) {
		return selectsNothing
	}
	podLabels := r.PodLabels
	if t.Required {
		podLabels = r.RequiredPodLabels
	}
	if !t.Match.Pods.Matches(labels.Set(podLabels)) {
		return selectsNamespace
	}
	return selectsPod
}
