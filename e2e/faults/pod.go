package faults

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Kind is a kind of namespace.
type Kind string

// The kinds of namespaces that pods are created in.
const (
	NeverAsked Kind = "never-asked"
	Enabled    Kind = "enabled"
	Enforced   Kind = "enforced"
	Required   Kind = "required" // a template selects it that is required now and then
)

// namespaceOf is the namespace of a kind.
func namespaceOf(kind Kind) string { return "faults-" + string(kind) }

// A Pod is what became of one attempt to create a pod.
type Pod struct {
	Kind         Kind
	Namespace    string
	Began, Ended time.Time
	// Unanswered and Denied are why the pod was refused for Pillion: a call failed, or Pillion
	// denied it. Elsewhere is the same for other reasons, also where no API server answered.
	Unanswered, Denied, Elsewhere string
	// Sidecars are Pillion's containers of the pod that was created: by their names, the version
	// of the template that they come from.
	Sidecars map[string]string
	// Touched reports that the pod has something else of Pillion's.
	Touched bool
}

// refusal is why the pod was refused; empty if it was created.
func (p Pod) refusal() string { return p.Unanswered + p.Denied + p.Elsewhere }

// fail notes why the creation failed. API servers name Pillion's entry: admission webhook
// "enabled.pillion.dev" denied the request, failed calling webhook "enforced.pillion.dev".
func (p *Pod) fail(err error) {
	var status apierrors.APIStatus
	text := err.Error()
	switch {
	case !errors.As(err, &status) || !strings.Contains(text, `webhook "`) || !strings.Contains(text, `.pillion.dev"`):
		p.Elsewhere = text
	case apierrors.IsInternalError(err) || strings.Contains(text, "failed calling webhook"):
		p.Unanswered = text
	default:
		p.Denied = text
	}
}

// look notes what the created pod has of Pillion's.
func (p *Pod) look(created *corev1.Pod) {
	p.Touched = created.Annotations[statusAnnotation] != ""
	p.Sidecars = map[string]string{}
	for _, c := range slices.Concat(created.Spec.InitContainers, created.Spec.Containers) {
		switch c.Name {
		case librarySidecar:
			p.Sidecars[c.Name] = libraryVersion
		case askedTemplate, selectingTemplate:
			p.Sidecars[c.Name] = "none"
			for _, e := range c.Env {
				if e.Name == versionVariable {
					p.Sidecars[c.Name] = e.Value
				}
			}
		}
	}
}
