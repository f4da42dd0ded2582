package effects

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/injector/reason"
)

// The bounds of the background work. An event costs up to three requests.
const (
	queueLength = 512
	eventsQPS   = 5
	eventsBurst = 20
	callTimeout = 5 * time.Second
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

// EventsGetter is a client that creates events in a namespace.
type EventsGetter interface {
	Events(namespace string) clientset.Creator[*eventsv1.Event]
}

// Options are what [Events] work with. All fields are required but Owners and Now.
type Options struct {
	Client   EventsGetter
	Metadata metadata.Interface
	// Namespace returns the UID of a namespace in the cache.
	Namespace func(name string) (types.UID, bool)
	// Owners allows to read the owners of pods, and to write events about them. Without it
	// every event is on the namespace.
	Owners bool
	// Instance is the name of this replica.
	Instance string
	Logger   *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Events writes outcomes as events.k8s.io/v1 Events. An admission never waits for them: what
// does not fit into the queue, repeats an event or passes the rate is dropped.
type Events struct {
	options Options
	confirm confirmation
	bounds  *bounds
	queue   chan note
	rate    flowcontrol.RateLimiter
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// NewEvents starts writing events. Call Close to stop.
func NewEvents(o Options) *Events {
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Events{
		options: o, confirm: confirmation{client: o.Metadata, cached: o.Namespace, owners: o.Owners},
		bounds: newBounds(), queue: make(chan note, queueLength),
		rate: flowcontrol.NewTokenBucketRateLimiter(eventsQPS, eventsBurst), stop: stop,
	}
	e.ended.Go(func() { e.run(ctx) })
	return e
}

// Record queues one event. It does nothing on a dry run, and never blocks.
func (e *Events) Record(o Event) {
	if o.DryRun || len(o.Namespace) > validation.DNS1123LabelMaxLength || len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		return
	}
	n := noteOf(o, e.options.Now())
	counted := n.namespace
	if _, known := e.options.Namespace(n.namespace); !known {
		counted = ""
	}
	if !e.bounds.allow(n.key(), counted, n.at) {
		return
	}
	select {
	case e.queue <- n:
	default:
		e.bounds.forget(n.key())
		e.options.Logger.Debug("dropped an event, because too many wait", "namespace", n.namespace, "reason", n.code)
	}
}

// Close stops writing. Queued events may be lost.
func (e *Events) Close() {
	e.stop()
	e.ended.Wait()
}

// run writes queued events until ctx ends.
func (e *Events) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-e.queue:
			if e.rate.Wait(ctx) != nil {
				return
			}
			if err := e.write(ctx, n); err != nil && ctx.Err() == nil {
				e.bounds.forget(n.key())
				e.options.Logger.Warn("writing an event failed", "namespace", n.namespace, "reason", n.code, "error", err)
			}
		}
	}
}

// write writes one event, unless its namespace does not exist.
func (e *Events) write(ctx context.Context, n note) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	regarding, ok, err := e.confirm.regarding(ctx, n)
	if !ok || err != nil {
		return err
	}
	_, err = e.options.Client.Events(n.namespace).Create(ctx, n.event(regarding, e.options.Instance), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err): // another replica, or this one before it restarted
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return fmt.Errorf("creating an event: %w", err)
	}
	return nil
}
