package effects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/pillion-dev/pillion/injector/reason"
)

// Event is the result of an admission that an admin or a team should see later.
type Event struct {
	// DryRun says that the API server only tries the request: no event is written.
	DryRun    bool
	Namespace string
	// Pod is the pod of the review as decoded JSON.
	Pod     map[string]any
	Code    reason.Code
	Message string
}

// Events writes outcomes as Kubernetes events. An admission never waits for them: the queue
// is bounded, and client-go's correlator counts equal events instead of repeating them and
// drops a flood of events.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents starts writing events. Call Close to stop.
func NewEvents(client typedcorev1.EventsGetter) *Events {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	return &Events{broadcaster: b, recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "pillion"})}
}

// Record queues one event. It does nothing on a dry run.
func (e *Events) Record(o Event) {
	if o.DryRun {
		return
	}
	e.recorder.Event(involved(o), corev1.EventTypeWarning, string(o.Code), o.Message)
}

// Close stops writing. Queued events may be lost.
func (e *Events) Close() { e.broadcaster.Shutdown() }

// involved returns the object of the event: the controller that owns the pod, or the
// namespace. It cannot be the pod, which does not exist yet.
func involved(o Event) *corev1.ObjectReference {
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
