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

// What Pillion did to the pod of an event, in the event's field action.
const (
	actionRefuse = "Refuse"
	actionAdmit  = "Admit"
)

// note is an event that waits to be written. It is small: the queue holds no pods.
type note struct {
	namespace string
	code      reason.Code
	action    string
	message   string
	// owner is the controller that the review names, of a kind that creates pods. Its zero
	// value means none.
	owner corev1.ObjectReference
}

// noteOf reads an event. It returns false for one that nobody has to be told.
func noteOf(e Event) (note, bool) {
	owner, controlled := controllerOf(e)
	if e.Told && !controlled {
		return note{}, false
	}
	if typeOf(e.Code) == "" {
		e.Code = InjectionNote
	}
	action := actionAdmit
	if e.Refused {
		action = actionRefuse
	}
	// A copy: a part of a message would keep all of it in memory.
	message := strings.Clone(clip(e.Message, maxNote))
	return note{namespace: e.Namespace, code: e.Code, action: action, message: message, owner: owner}, true
}

// controllerOf returns the controller that the pod names as its owner, if it is of a kind of
// Kubernetes' own that creates pods, and whether the pod names any.
func controllerOf(e Event) (ref corev1.ObjectReference, controlled bool) {
	of, controlled := owner.Controller(e.Pod)
	ref = corev1.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name, UID: types.UID(of.UID), Namespace: e.Namespace}
	kind, known := owner.Of(of.APIVersion, of.Kind)
	if !known || !kind.CreatesPods() || ref.Name == "" || len(ref.Name) > maxName || ref.UID == "" || len(ref.UID) > maxUID {
		return corev1.ObjectReference{}, controlled
	}
	return ref, controlled
}

// text returns the text of the event about an object: what happened, and the command that explains it.
func (n note) text(regarding corev1.ObjectReference, explain func(namespace, object string) string) string {
	end := " (why: " + explained(regarding, explain) + ")"
	return clip(n.message, maxNote-len(end)) + end
}

// explained is the command with which a team sees the details.
func explained(o corev1.ObjectReference, explain func(namespace, object string) string) string {
	if kind, known := owner.Of(o.APIVersion, o.Kind); known {
		return explain(o.Namespace, kind.Short+"/"+o.Name)
	}
	return explain("", "ns/"+o.Name)
}

// clip shortens a text to a number of bytes, and cuts no character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
