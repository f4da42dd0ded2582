package events

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
)

// InjectionNote is the reason of an event about a pod that was admitted with a warning that
// has no reason code of its own.
const InjectionNote = "InjectionNote"

// Reason is a reason that events of Pillion have.
type Reason struct {
	Name string
	// Type is Warning where a pod was refused or lacks a sidecar that somebody asked for, or
	// where something has to be mended; else Normal.
	Type string
	// Sentence is half a sentence without a full stop.
	Sentence string
}

// typeOf returns the type of an event with a reason code, and "" for a code that no event has.
func typeOf(code reason.Code) string {
	if code == InjectionNote {
		return corev1.EventTypeNormal
	}
	return code.EventType()
}

// Actions returns the actions that events of Pillion have: what it did to the pod, or to the template.
func Actions() []string { return []string{actionAdmit, actionRefuse, actionStop} }

// Kinds returns the kinds of owners that events can be about, sorted. Any other event is about the
// namespace, or about a template.
func Kinds() []string {
	var kinds []string
	for _, kind := range owner.Kinds {
		kinds = append(kinds, kind.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// Reasons returns all reasons that events of Pillion have, by their names.
func Reasons() []Reason {
	all := []Reason{{InjectionNote, typeOf(InjectionNote), "the pod is admitted with a warning, for example because a value of the pod wins over the template's"}}
	for _, code := range reason.Codes() {
		if kind := typeOf(code); kind != "" {
			all = append(all, Reason{string(code), kind, code.Sentence()})
		}
	}
	slices.SortFunc(all, func(a, b Reason) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
