package effects

import (
	"context"
	"encoding/json"
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

// The bounds of the background work. An event costs up to four requests: its namespace, the
// pod's owner, the owner of that, and the event. One that exists costs two more, and a pair
// for each time that another replica came in between.
const (
	queueLength = 512
	eventsQPS   = 5
	eventsBurst = 20
	callTimeout = 5 * time.Second
	// lookEvery is how often it is looked for counts to write, one each time.
	lookEvery = time.Second / 4
	// raises is how often the count of a series is tried to be raised.
	raises = 3
)

// Event is the result of an admission that an admin or a team should see later.
type Event struct {
	// DryRun says that the API server only tries the request: no event is written.
	DryRun    bool
	Namespace string
	// Pod is the pod of the review as decoded JSON.
	Pod map[string]any
	// Code is one of [Reasons].
	Code    reason.Code
	Message string
	// Refused reports whether the pod was refused.
	Refused bool
	// Told reports whether who created the pod was told. It is no event then, unless a
	// controller created the pod, to whom nobody listens.
	Told bool
}

// EventsGetter is a client that writes events in a namespace.
type EventsGetter interface {
	Events(namespace string) clientset.CreatePatcher[*eventsv1.Event]
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
	// Explain is the command that explains an object of the cluster, which ends the event. The
	// namespace is empty for a Namespace.
	Explain func(namespace, object string) string
	// Instance is the name of this replica.
	Instance string
	Logger   *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Events writes outcomes as events.k8s.io/v1 Events. An admission never waits for them: what
// does not fit into the queue or passes the rate is dropped. What repeats an event is counted,
// and the count of its series is raised from time to time.
type Events struct {
	options Options
	confirm confirmation
	bounds  *bounds
	tally   tally
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
	n, tell := noteOf(o, e.options.Now())
	if !tell {
		return
	}
	counted := n.namespace
	if _, known := e.options.Namespace(n.namespace); !known {
		counted = ""
	}
	if !e.bounds.allow(n, counted) {
		e.tally.count(outcomeWithheld)
		return
	}
	select {
	case e.queue <- n:
	default:
		e.tally.count(outcomeDropped)
		e.bounds.forget(n.key())
		e.options.Logger.Debug("dropped an event, because too many wait", "namespace", n.namespace, "reason", n.code)
	}
}

// Close stops writing. Queued events may be lost.
func (e *Events) Close() {
	e.stop()
	e.ended.Wait()
}

// run writes queued events until ctx ends, and counts of events where none is queued.
func (e *Events) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		var n note
		select {
		case <-ctx.Done():
			return
		case n = <-e.queue:
		case <-look.C:
			var due bool
			if len(e.queue) > 0 {
				continue
			}
			if n, due = e.bounds.due(e.options.Now()); !due {
				continue
			}
		}
		if e.rate.Wait(ctx) != nil {
			return
		}
		if err := e.write(ctx, n); err != nil && ctx.Err() == nil {
			e.tally.count(outcomeFailed)
			e.bounds.forget(n.key())
			e.options.Logger.Warn("writing an event failed", "namespace", n.namespace, "reason", n.code, "error", err)
		}
	}
}

// write writes one event, unless its namespace does not exist.
func (e *Events) write(ctx context.Context, n note) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	regarding, ok, err := e.confirm.regarding(ctx, n)
	if err != nil {
		return err
	}
	if !ok {
		e.tally.count(outcomeRefuted)
		return nil
	}
	event, client := n.event(regarding, e.options), e.options.Client.Events(n.namespace)
	// An event that exists may expire before its count is raised, and so comes anew.
	for range 2 {
		_, err = client.Create(ctx, event, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			break
		}
		if err = raise(ctx, client, event.Name, n); !apierrors.IsNotFound(err) {
			break
		}
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		e.tally.count(outcomeRefuted)
		return nil
	case err != nil:
		return fmt.Errorf("writing an event: %w", err)
	}
	e.tally.count(outcomeWritten)
	return nil
}

// raise adds to the count of an event that exists: of another replica, of another pod of the
// same owner, or of this replica before it restarted. A patch of nothing tells the count, so
// Pillion needs no right to read events. Where a count is raised in between, it tries again.
func raise(ctx context.Context, client clientset.CreatePatcher[*eventsv1.Event], name string, n note) error {
	var err error
	for range raises {
		var now *eventsv1.Event
		if now, err = client.Patch(ctx, name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
			return err
		}
		count := n.count + 1
		if now.Series != nil {
			count = n.count + int(now.Series.Count)
		}
		var patch []byte
		patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": now.ResourceVersion}, "series": n.series(count)})
		if err != nil {
			return err
		}
		if _, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}
