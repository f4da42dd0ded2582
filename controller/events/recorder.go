package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/lru"

	"github.com/pillion-dev/pillion/controller/reconcile"
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
	// raises is how often the count of a series is tried to be raised.
	raises = 3
	// An equal event that comes again is counted, and the count is written firstRepeat after
	// the last write, then after twice as long each time, and every lastRepeat in the end.
	firstRepeat = 10 * time.Second
	lastRepeat  = 5 * time.Minute
	// A count that leaves the place to other events is tried again after countRetry.
	countRetry = time.Second / 4
	// remembered is how many events are remembered, to count those that come again.
	remembered = 2048
	// A namespace may have namespaceBurst writes at once, and one more every
	// namespaceInterval. All namespaces that the cache does not know count as one. Counts
	// of known events leave namespaceReserve of them to new events.
	namespaceBurst    = 10
	namespaceReserve  = 5
	namespaceInterval = 10 * time.Second
	// namespacesCounted is how many namespaces' rates are remembered.
	namespacesCounted = 4096
)

// Event is the result of an admission that an admin or a team should see later.
type Event struct {
	// DryRun says that the API server only tries the request: no event is written.
	DryRun    bool
	Namespace string
	// Pod is the pod of the review as decoded JSON.
	Pod map[string]any
	// Code is [InjectionNote], or a reason code that has an event type.
	Code    reason.Code
	Message string
	// Refused reports whether the pod was refused.
	Refused bool
	// Told reports whether who created the pod was told. It is no event then, unless a
	// controller created the pod, to whom nobody listens.
	Told bool
}

// Options are what a [Recorder] works with. All fields are required but Owners and Now.
type Options struct {
	Client   eventsclient.EventsGetter
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

// Recorder writes results of admissions as events.k8s.io/v1 Events. An admission never waits for
// it: an event that finds the queue full, or that exceeds the rates, is dropped. An event that
// repeats another one is counted, and the count of its series is raised from time to time.
type Recorder struct {
	options Options
	// loop has the keys of series to write.
	loop     *reconcile.Loop
	rate     *rate.Limiter
	outcomes *prometheus.CounterVec

	mu     sync.Mutex
	series *lru.Cache // *series by the key of its events
	rates  *lru.Cache // *rate.Limiter by namespace
}

// series are equal events.
type series struct {
	// pending is the last event, with how many came since the last write: 0 for none.
	pending note
	// namespace is the one by whose rate the events are counted.
	namespace string
	// next is the earliest moment of the next write. It is zero before the first one. The write
	// after that comes wait later.
	next time.Time
	wait time.Duration
}

// New returns a recorder that writes nothing until [Recorder.Run] runs.
func New(o Options) *Recorder {
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Recorder{
		options: o,
		loop:    reconcile.NewLoop(nil), rate: rate.NewLimiter(eventsQPS, eventsBurst),
		series: lru.New(remembered), rates: lru.New(namespacesCounted),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_events_total", Help: "Events about pods, by outcome; the log names those that failed.",
		}, []string{"outcome"}),
	}
	for _, outcome := range Outcomes() { // a rate sees the first one
		r.outcomes.WithLabelValues(outcome)
	}
	return r
}

// What becomes of an event that is recorded.
const (
	outcomeWritten  = "written"  // it is in the cluster, written by this replica or by another
	outcomeWithheld = "withheld" // it repeats an event, whose count is raised later, or its namespace has had its share
	outcomeDropped  = "dropped"  // too many waited
	outcomeRefuted  = "refuted"  // its namespace does not exist
	outcomeFailed   = "failed"   // the API server did not take it
)

// Outcomes returns the values of the label outcome of pillion_events_total.
func Outcomes() []string {
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
	n, tell := noteOf(e, r.options.Now())
	if !tell {
		return
	}
	counted := n.namespace
	if _, known := r.options.Namespace(n.namespace); !known {
		counted = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := n.key()
	if known, ok := r.series.Get(key); ok {
		s := known.(*series)
		if s.pending.count == 0 {
			r.loop.AddAfter(key, s.next.Sub(n.at))
		}
		n.count = min(s.pending.count+1, maxCount)
		s.pending = n
		r.count(outcomeWithheld)
		return
	}
	switch {
	case !r.allow(counted, n.at, 0):
		r.count(outcomeWithheld)
	case r.loop.Len() >= queueLength:
		r.count(outcomeDropped)
		r.options.Logger.Debug("dropped an event, because too many wait", "namespace", n.namespace, "reason", n.code)
	default:
		r.series.Add(key, &series{pending: n, namespace: counted, wait: firstRepeat})
		r.loop.Add(key)
	}
}

// allow reports whether the rate of a namespace allows one more event and leaves a reserve, and
// counts the event then. The namespace is "" for one that the cache does not know.
func (r *Recorder) allow(namespace string, now time.Time, reserve float64) bool {
	known, ok := r.rates.Get(namespace)
	if !ok {
		known = rate.NewLimiter(rate.Every(namespaceInterval), namespaceBurst)
		r.rates.Add(namespace, known)
	}
	limiter := known.(*rate.Limiter)
	return limiter.TokensAt(now) >= 1+reserve && limiter.AllowN(now, 1)
}

// Run writes events until ctx ends, which is no error. Queued events may be lost then.
func (r *Recorder) Run(ctx context.Context) error {
	r.loop.Run(ctx, 1, r.sync)
	return nil
}

// sync writes what is pending of a series, and returns when to look again.
func (r *Recorder) sync(ctx context.Context, key string) time.Duration {
	n, wait := r.due(key)
	if wait != 0 || r.rate.Wait(ctx) != nil {
		return wait
	}
	if err := r.write(ctx, n); err != nil && ctx.Err() == nil {
		r.count(outcomeFailed)
		r.series.Remove(key) // the next equal event is a new one
		r.options.Logger.Warn("writing an event failed", "namespace", n.namespace, "reason", n.code, "error", err)
	}
	return reconcile.Never
}

// due takes what is pending of a series, or returns how long it may not be written. Counts leave
// the place to new events.
func (r *Recorder) due(key string) (n note, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.series.Get(key)
	if !ok {
		return note{}, reconcile.Never // it was forgotten for others
	}
	s, now := known.(*series), r.options.Now()
	if !s.next.IsZero() {
		switch {
		case r.loop.Len() > 0:
			return note{}, countRetry
		case !r.allow(s.namespace, now, namespaceReserve):
			return note{}, namespaceInterval
		}
		s.wait = min(2*s.wait, lastRepeat)
	}
	n = s.pending
	s.pending, s.next = note{}, now.Add(s.wait)
	return n, 0
}

// write writes one event, unless its namespace does not exist.
func (r *Recorder) write(ctx context.Context, n note) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	regarding, ok, err := r.regarding(ctx, n)
	if err != nil {
		return err
	}
	if !ok {
		r.count(outcomeRefuted)
		return nil
	}
	event, client := n.event(regarding, r.options), r.options.Client.Events(n.namespace)
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
		r.count(outcomeRefuted)
		return nil
	case err != nil:
		return fmt.Errorf("writing an event: %w", err)
	}
	r.count(outcomeWritten)
	return nil
}

// raise adds to the count of an event that exists: of another replica, of another pod of the
// same owner, or of this replica before it restarted. A patch of nothing tells the count, so
// Pillion needs no right to read events. Where a count is raised in between, it tries again.
func raise(ctx context.Context, client eventsclient.EventInterface, name string, n note) error {
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
