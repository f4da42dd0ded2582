package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// note is an event that is not confirmed yet. It is small: the queue holds no pods.
type note struct {
	namespace string
	code      reason.Code
	action    string
	message   string
	// count is how often the event came, the last time at the moment at.
	count int
	at    time.Time
	// owner is the controller that the review names, of a kind that creates pods. Its zero
	// value means none.
	owner corev1.ObjectReference
}

// noteOf reads an event. It returns false for one that nobody has to be told.
func noteOf(e Event, now time.Time) (note, bool) {
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
	return note{namespace: e.Namespace, code: e.Code, action: action, message: message, count: 1, at: now, owner: owner}, true
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

// key is the same for equal events.
func (n note) key() string {
	return strings.Join([]string{n.namespace, n.owner.APIVersion, n.owner.Kind, n.owner.Name, string(n.owner.UID), string(n.code), n.action, n.says()}, "\x00")
}

// says is what an event says but for what there is to choose from, which changes with others'
// templates.
func (n note) says() string {
	said, _, _ := strings.Cut(n.message, reason.Choice)
	return said
}

// event returns the event about a confirmed object. Its name is made of what it says: the API
// server refuses the same event of another replica, or of another time, and its series then
// goes on.
func (n note) event(regarding corev1.ObjectReference, o Options) *eventsv1.Event {
	sum := sha256.Sum256([]byte(strings.Join([]string{regarding.Kind, string(regarding.UID), string(n.code), n.action, n.says()}, "\x00")))
	suffix := "." + hex.EncodeToString(sum[:8])
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: n.namespace, Name: strings.TrimRight(clip(regarding.Name, maxName-len(suffix)), ".-") + suffix},
		EventTime:           metav1.NewMicroTime(n.at),
		ReportingController: "pillion",
		ReportingInstance:   o.Instance,
		Action:              n.action,
		Reason:              string(n.code),
		Regarding:           regarding,
		Type:                typeOf(n.code),
	}
	if n.count > 1 {
		e.Series = n.series(n.count)
	}
	end := " (why: " + explained(regarding, o.Explain) + ")"
	e.Note = clip(n.message, maxNote-len(end)) + end
	return e
}

// series is that of an event that came so many times.
func (n note) series(count int) *eventsv1.EventSeries {
	return &eventsv1.EventSeries{Count: int32(min(count, maxCount)), LastObservedTime: metav1.NewMicroTime(n.at)}
}

// maxCount bounds the count of a series.
const maxCount = 1 << 30

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
