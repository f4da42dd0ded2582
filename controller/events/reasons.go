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

// typeOf has the type of an event for each reason code that events have.
var typeOf = map[reason.Code]string{
	reason.BadAnnotation: corev1.EventTypeWarning, reason.BadParameter: corev1.EventTypeWarning, reason.ConditionFalse: corev1.EventTypeWarning,
	reason.Conflict: corev1.EventTypeWarning, reason.MirrorPod: corev1.EventTypeWarning, reason.NamespaceDisabled: corev1.EventTypeWarning,
	reason.NamespaceExcluded: corev1.EventTypeWarning, reason.NoDefaultTemplates: corev1.EventTypeWarning, reason.NotAllowedHere: corev1.EventTypeWarning,
	reason.OtherSystem: corev1.EventTypeWarning, reason.RenderFailed: corev1.EventTypeWarning, reason.RequiredMissing: corev1.EventTypeWarning, reason.Suspended: corev1.EventTypeWarning,
	reason.TemplateBroken: corev1.EventTypeWarning, reason.TemplateTooExpensive: corev1.EventTypeWarning, reason.UnknownTemplate: corev1.EventTypeWarning,
	reason.JobNeverFinishes: corev1.EventTypeWarning, reason.RefusedByCluster: corev1.EventTypeWarning,
	reason.LabelNotWritten: corev1.EventTypeWarning, reason.UntrueLabel: corev1.EventTypeWarning, reason.ValidationFailed: corev1.EventTypeWarning,

	reason.NothingToInject: corev1.EventTypeNormal, InjectionNote: corev1.EventTypeNormal,
}

// Actions returns the actions that events of Pillion have: what it did to the pod.
func Actions() []string { return []string{actionAdmit, actionRefuse} }

// Kinds returns the kinds of owners that events can be about, sorted. Any other event is about the
// namespace.
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
	all := make([]Reason, 0, len(typeOf))
	for code, kind := range typeOf {
		r := Reason{Name: string(code), Type: kind, Sentence: code.Sentence()}
		if code == InjectionNote {
			r.Sentence = "the pod is admitted with a warning, such as of a value of the pod's that stays though a template wants another one"
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Reason) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
