package effects

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/injector/reason"
)

// Limits of the API for an event and for the names in it, in bytes.
const (
	maxNote = 1024
	maxName = 253
	maxUID  = 128
)

// owners are the kinds of controllers that create pods, with their resources. An event about
// an owner of another kind is on the namespace.
var owners = map[schema.GroupVersionKind]schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:        {Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}:       {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}:         {Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "batch", Version: "v1", Kind: "Job"}:              {Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "", Version: "v1", Kind: "ReplicationController"}: {Group: "", Version: "v1", Resource: "replicationcontrollers"},
}

// note is an event that is not confirmed yet. It is small: the queue holds no pods.
type note struct {
	namespace string
	code      reason.Code
	message   string
	at        time.Time
	// owner is the controller that the review names, of one of the kinds in owners. Its
	// zero value means none.
	owner corev1.ObjectReference
}

// noteOf reads an event.
func noteOf(e Event, now time.Time) note {
	return note{namespace: e.Namespace, code: e.Code, message: clip(e.Message, maxNote), at: now, owner: controllerOf(e)}
}

// controllerOf returns the controller that the pod names as its owner.
func controllerOf(e Event) corev1.ObjectReference {
	meta, _ := e.Pod["metadata"].(map[string]any)
	references, _ := meta["ownerReferences"].([]any)
	for _, item := range references {
		m, _ := item.(map[string]any)
		if controller, _ := m["controller"].(bool); !controller {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		ref := corev1.ObjectReference{APIVersion: text("apiVersion"), Kind: text("kind"), Name: text("name"), UID: types.UID(text("uid")), Namespace: e.Namespace}
		_, known := owners[ref.GroupVersionKind()]
		if !known || ref.Name == "" || len(ref.Name) > maxName || ref.UID == "" || len(ref.UID) > maxUID {
			return corev1.ObjectReference{}
		}
		return ref
	}
	return corev1.ObjectReference{}
}

// key is the same for equal events.
func (n note) key() string {
	return strings.Join([]string{n.namespace, n.owner.APIVersion, n.owner.Kind, n.owner.Name, string(n.owner.UID), string(n.code), n.message}, "\x00")
}

// event returns the event about a confirmed object. Its name is made of what it says and of
// the time in steps of repeatAfter: the API server refuses the same event of another replica.
func (n note) event(regarding corev1.ObjectReference, instance string) *eventsv1.Event {
	window := strconv.FormatInt(n.at.UnixNano()/int64(repeatAfter), 10)
	sum := sha256.Sum256([]byte(strings.Join([]string{regarding.Kind, string(regarding.UID), string(n.code), n.message, window}, "\x00")))
	suffix := "." + hex.EncodeToString(sum[:8])
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: n.namespace, Name: strings.TrimRight(clip(regarding.Name, maxName-len(suffix)), ".-") + suffix},
		EventTime:           metav1.NewMicroTime(n.at),
		ReportingController: "pillion",
		ReportingInstance:   instance,
		Action:              "Inject",
		Reason:              string(n.code),
		Regarding:           regarding,
		Note:                n.message,
		Type:                corev1.EventTypeWarning,
	}
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
