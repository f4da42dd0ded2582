package events

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"

	"github.com/pillion-dev/pillion/injector/reason"
)

const (
	// queueLength bounds the events that wait.
	queueLength = 512
	// All namespaces together have eventsPerSecond, after eventsAtOnce, and each namespace one in namespaceInterval,
	// after namespaceAtOnce. Namespaces that are not in the cache share one rate.
	eventsPerSecond, eventsAtOnce = 5, 20
	namespaceInterval             = 10 * time.Second
	namespaceAtOnce               = 10
	// maxNamespaces is how many namespaces' rates are remembered.
	maxNamespaces = 4096
	readTimeout   = 5 * time.Second
	// An event that equals one of the last maxRecent is not written again within recent: a controller retries a
	// refused pod, and would use up the rate of its namespace.
	maxRecent, recent = 1024, 10 * time.Second
)

// Event is the result of an admission that an admin or a team should see later.
type Event struct {
	// DryRun means that the request was a dry run. It has no event.
	DryRun    bool
	Namespace string
	// Pod is the pod of the review as decoded JSON.
	Pod map[string]any
	// Code is [InjectionNote], or a reason code that has an event type.
	Code    reason.Code
	Message string
	// Refused reports whether the pod was refused.
	Refused bool
	// Warned reports whether the pod's creator got the message as a warning. The event is then
	// written only if the creator is a controller, because controllers discard warnings.
	Warned bool
}

// Options configure a [Recorder]. All fields are required but Owners.
type Options struct {
	Client   eventsclient.EventsV1Interface
	Metadata metadata.Interface
	// Namespace returns the UID of a namespace in the cache.
	Namespace func(name string) (types.UID, bool)
	// Owners means that the recorder may read the owners of pods. Events are then about the
	// owner; otherwise they are about the namespace.
	Owners bool
	// Explain returns the command that explains an object, for the end of the message. The
	// namespace is empty for a Namespace.
	Explain func(namespace, object string) string
	Logger  *slog.Logger
}

// Recorder writes results of admissions as events.k8s.io/v1 Events, by client-go's recorder. An admission never
// waits for it: an event that finds the queue full, or that exceeds the rates, is dropped.
type Recorder struct {
	options  Options
	queue    chan note
	limiter  *rate.Limiter
	outcomes *prometheus.CounterVec

	mu    sync.Mutex
	rates *lru.Cache // *rate.Limiter by namespace
	// lastNotes has the notes that were queued or written within recent.
	lastNotes *cache.LRUExpireCache
}

// New returns a recorder that writes nothing until [Recorder.Run] runs.
func New(o Options) *Recorder {
	r := &Recorder{
		options: o, queue: make(chan note, queueLength), limiter: rate.NewLimiter(eventsPerSecond, eventsAtOnce), rates: lru.New(maxNamespaces), lastNotes: cache.NewLRUExpireCache(maxRecent),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_events_total", Help: "Events about pods, by outcome; the log names those that failed.",
		}, []string{"outcome"}),
	}
	for _, outcome := range outcomes() { // a rate sees the first one
		r.outcomes.WithLabelValues(outcome)
	}
	return r
}

// Outcomes of recorded events.
const (
	outcomeWritten  = "written"  // the event is in the cluster, or counted in an event series
	outcomeWithheld = "withheld" // the namespace exceeded its rate
	outcomeDropped  = "dropped"  // the queue is full
	outcomeRefuted  = "refuted"  // the namespace does not exist
	outcomeFailed   = "failed"   // the API server refused the event
)

// outcomes returns the values of the label outcome of pillion_events_total.
func outcomes() []string {
	return []string{outcomeWritten, outcomeWithheld, outcomeDropped, outcomeRefuted, outcomeFailed}
}

// Collector returns the collector of the recorder's metric.
func (r *Recorder) Collector() prometheus.Collector { return r.outcomes }

func (r *Recorder) count(outcome string) { r.outcomes.WithLabelValues(outcome).Inc() }

// Record queues one event. It does nothing on a dry run, and never blocks.
func (r *Recorder) Record(e Event) {
	if e.DryRun || len(e.Namespace) > validation.DNS1123LabelMaxLength || len(validation.IsDNS1123Label(e.Namespace)) > 0 {
		return
	}
	n, ok := newNote(e)
	switch {
	case !ok:
		return
	case r.isRepeated(n):
		return
	case !r.allow(n.namespace):
		r.count(outcomeWithheld)
		return
	}
	select {
	case r.queue <- n:
		r.lastNotes.Add(n, nil, recent)
	default:
		r.count(outcomeDropped)
	}
}

func (r *Recorder) isRepeated(n note) bool {
	_, repeated := r.lastNotes.Get(n)
	return repeated
}

// allow reports whether the rate of a namespace allows one more event, and counts the event then.
func (r *Recorder) allow(namespace string) bool {
	if _, ok := r.options.Namespace(namespace); !ok {
		namespace = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter, ok := r.rates.Get(namespace)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(namespaceInterval), namespaceAtOnce)
		r.rates.Add(namespace, limiter)
	}
	return limiter.(*rate.Limiter).Allow()
}

// Run writes events until ctx ends, which is no error. Queued events may be lost then.
func (r *Recorder) Run(ctx context.Context) error {
	broadcaster := events.NewBroadcaster(&sink{events.EventSinkImpl{Interface: r.options.Client}, r})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), "pillion")
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-r.queue:
			if r.limiter.Wait(ctx) == nil {
				r.write(ctx, recorder, n)
			}
		}
	}
}

// write writes one event, unless its namespace does not exist.
func (r *Recorder) write(ctx context.Context, recorder events.EventRecorder, n note) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	regarding, ok, err := r.regarding(ctx, n)
	switch {
	case err != nil:
		r.fail(n.namespace, string(n.code), err)
	case !ok:
		r.count(outcomeRefuted)
	default:
		recorder.Eventf(&regarding, nil, typeOf(n.code), string(n.code), n.action, "%s", n.text(regarding, r.options.Explain))
	}
}

func (r *Recorder) fail(namespace, code string, err error) {
	r.count(outcomeFailed)
	r.options.Logger.Warn("writing an event failed", "namespace", namespace, "reason", code, "error", err)
}

// sink counts the outcomes of writes.
type sink struct {
	events.EventSinkImpl
	r *Recorder
}

// Create implements [events.EventSink].
func (s *sink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	created, err := s.EventSinkImpl.Create(ctx, e)
	s.observe(ctx, e, err)
	return created, err
}

// Patch implements [events.EventSink].
func (s *sink) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	patched, err := s.EventSinkImpl.Patch(ctx, e, data)
	s.observe(ctx, e, err)
	return patched, err
}

func (s *sink) observe(ctx context.Context, e *eventsv1.Event, err error) {
	switch {
	case err == nil:
		s.r.count(outcomeWritten)
	case ctx.Err() == nil:
		s.r.fail(e.Namespace, e.Reason, err)
	}
}
