package events

import (
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Limits of the API for an event and for the names in it, in bytes.
const (
	maxNote = 1024
	maxName = 253
	maxUID  = 128
)

// Values of the event's field action.
const (
	actionRefuse = "Refuse"
	actionAdmit  = "Admit"
)

// note is an event that waits to be written. It has no pod, so that the queue is small.
type note struct {
	namespace string
	code      reason.Code
	action    string
	message   string
	// owner is the controller that the review names, of a kind that creates pods. Its zero
	// value means none.
	owner corev1.ObjectReference
}

// newNote returns the note of an event. It returns false if the pod's creator is a person who got the
// event's message as a warning.
func newNote(e Event) (note, bool) {
	owner, controlled := controllerOf(e)
	if e.Warned && !controlled {
		return note{}, false
	}
	if typeOf(e.Code) == "" {
		e.Code = InjectionNote
	}
	action := actionAdmit
	if e.Refused {
		action = actionRefuse
	}
	// A copy: a substring would retain the whole message in memory.
	message := strings.Clone(clip(e.Message, maxNote))
	return note{namespace: e.Namespace, code: e.Code, action: action, message: message, owner: owner}, true
}

// controllerOf returns the controller in the pod's owner references. controlled is whether the pod
// names one. ref is empty if the controller's kind is not one of Kubernetes' own that create pods.
func controllerOf(e Event) (ref corev1.ObjectReference, controlled bool) {
	of, controlled := owner.Controller(e.Pod)
	ref = corev1.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name, UID: types.UID(of.UID), Namespace: e.Namespace}
	kind, known := owner.Of(of.APIVersion, of.Kind)
	if !known || !kind.CreatesPods() || ref.Name == "" || len(ref.Name) > maxName || ref.UID == "" || len(ref.UID) > maxUID {
		return corev1.ObjectReference{}, controlled
	}
	return ref, controlled
}

// text formats the message of the event, with the command that explains the object.
func (n note) text(regarding corev1.ObjectReference, explain func(namespace, object string) string) string {
	end := " (why: " + explainCommand(regarding, explain) + ")"
	return clip(n.message, maxNote-len(end)) + end
}

// explainCommand returns the command that explains the object.
func explainCommand(o corev1.ObjectReference, explain func(namespace, object string) string) string {
	if kind, known := owner.Of(o.APIVersion, o.Kind); known {
		return explain(o.Namespace, kind.Short+"/"+o.Name)
	}
	return explain("", "ns/"+o.Name)
}

// clip shortens a text to the limit in bytes, at the boundary of a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
