package effects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/pillion-dev/pillion/injector/reason"
)

// Outcome is something that an admin or a team should be able to see later.
type Outcome struct {
	// DryRun suppresses every effect.
	DryRun    bool
	Namespace string
	// Pod is the pod as it came, JSON decoded.
	Pod     map[string]any
	Code    reason.Code
	Message string
}

// Events writes outcomes as Kubernetes events. Its queue is bounded, equal
// events are counted up instead of repeated, and a flood is dropped (client-go's
// correlator): an admission never waits for it.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents starts the writing. Close ends it.
func NewEvents(client typedcorev1.EventsGetter) *Events {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	return &Events{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "pillion"})}
}

// Record queues one event, except on a dry run.
func (e *Events) Record(o Outcome) {
	if o.DryRun {
		return
	}
	e.recorder.Event(about(o), corev1.EventTypeWarning, string(o.Code), o.Message)
}

// Close stops the writing. Queued events may be lost.
func (e *Events) Close() { e.broadcaster.Shutdown() }

// about is whom the event concerns: the pod does not exist yet, so it is the
// controller that owns it, or the namespace.
func about(o Outcome) *corev1.ObjectReference {
	meta, _ := o.Pod["metadata"].(map[string]any)
	owners, _ := meta["ownerReferences"].([]any)
	for _, owner := range owners {
		m, _ := owner.(map[string]any)
		if controller, _ := m["controller"].(bool); !controller {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		return &corev1.ObjectReference{APIVersion: text("apiVersion"), Kind: text("kind"), Name: text("name"), UID: types.UID(text("uid")), Namespace: o.Namespace}
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: o.Namespace, Namespace: o.Namespace}
}
