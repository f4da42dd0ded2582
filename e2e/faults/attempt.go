package faults

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A namespaceKind is a kind of namespace.
type namespaceKind string

// The kinds of namespaces that pods are created in.
const (
	neverAsked namespaceKind = "never-asked"
	enabled    namespaceKind = "enabled"
	enforced   namespaceKind = "enforced"
	selected   namespaceKind = "required" // a template selects it that is required now and then
)

// namespaceOf is the namespace of a kind.
func namespaceOf(kind namespaceKind) string { return "faults-" + string(kind) }

// An attempt to create a pod, and its outcome.
type attempt struct {
	kind         namespaceKind
	namespace    string
	began, ended time.Time
	// unanswered and denial are why the pod was refused for Pillion: a call failed, or Pillion
	// denied the pod. elsewhere is the same for other reasons, also where no API server answered.
	unanswered, denial, elsewhere string
	// sidecars are Pillion's containers of the pod that was created: by their names, the version
	// of the template that they come from.
	sidecars map[string]string
	// record reports that the pod has Pillion's record.
	record bool
}

// refusal is why the pod was refused; empty if it was created.
func (a attempt) refusal() string { return a.unanswered + a.denial + a.elsewhere }

// fail notes why the creation failed. API servers name Pillion's entry: admission webhook
// "enabled.pillion.dev" denied the request, failed calling webhook "enforced.pillion.dev".
func (a *attempt) fail(err error) {
	var status apierrors.APIStatus
	text := err.Error()
	switch {
	case !errors.As(err, &status) || !strings.Contains(text, `webhook "`) || !strings.Contains(text, `.pillion.dev"`):
		a.elsewhere = text
	case apierrors.IsInternalError(err) || strings.Contains(text, "failed calling webhook"):
		a.unanswered = text
	default:
		a.denial = text
	}
}

// compare notes the parts of the created pod that are Pillion's.
func (a *attempt) compare(created *corev1.Pod) {
	a.record = created.Annotations[statusAnnotation] != ""
	a.sidecars = map[string]string{}
	for _, c := range slices.Concat(created.Spec.InitContainers, created.Spec.Containers) {
		switch c.Name {
		case librarySidecar:
			a.sidecars[c.Name] = libraryVersion
		case askedTemplate, selectingTemplate:
			a.sidecars[c.Name] = "none"
			for _, e := range c.Env {
				if e.Name == versionVariable {
					a.sidecars[c.Name] = e.Value
				}
			}
		}
	}
}
