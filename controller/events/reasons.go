package events

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector/reason"
)

// InjectionNote is the reason of an event about a pod that was admitted with a warning that
// has no reason code of its own.
const InjectionNote = "InjectionNote"

// typeOf returns the type of an event with a reason code, and "" for a code that no event has.
func typeOf(code reason.Code) string {
	if code == InjectionNote {
		return corev1.EventTypeNormal
	}
	return code.EventType()
}
