package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Recorder takes note of events. Implementations do not block, and do nothing outside
// on a dry run.
type Recorder interface {
	Record(events.Event)
}

// Options are what a [Middleware] works with. All fields are required but Ready
// and Advice.
type Options struct {
	Effects Recorder
	Metrics *Metrics
	Logger  *slog.Logger
	// Ready returns what is missing before reviews can be answered well, and nil if
	// nothing is. Nil is always ready.
	Ready func() error
	// Timeout is the longest time that an API server waits for an answer. A review may
	// ask for less time, not for more.
	Timeout time.Duration
	Memory  Memory
	// Advice: the webhooks say nothing that an object depends on. What cannot be answered now is
	// given up: an API server that tried again would only keep somebody waiting.
	Advice bool
}

// Middleware does for every webhook what has to do with HTTP: readiness, bounds,
// timeouts, decoding, panics, encoding, metrics, the log and events. The webhooks that
// one Middleware serves share its bounds.
type Middleware struct {
	options Options
	bodies  *bodies
	room    *room
}

// NewMiddleware returns a middleware.
func NewMiddleware(o Options) *Middleware {
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	return &Middleware{options: o, bodies: newBodies(o.Memory.Bodies), room: newRoom(o.Memory.Slots)}
}

// exchange is what is known so far of one review and its answer.
type exchange struct {
	webhook string
	start   time.Time
	// review is nil until the body is decoded.
	review   *Review
	response Response
	// The rest is set when there is an answer: how long it took, whether it is one to a dry
	// run, and what the log says.
	took   time.Duration
	dryRun bool
	line   []slog.Attr
}

func (e *exchange) isDryRun() bool { return e.dryRun || e.review != nil && e.review.DryRun }

// Handler serves one webhook. A request that is no review is answered with 4xx, one
// that cannot be answered now with 503 and Retry-After, and Pillion's own failure with
// 500, so that the failurePolicy decides.
func (m *Middleware) Handler(webhook Webhook) http.Handler {
	m.options.Metrics.serves(webhook.Name())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{webhook: webhook.Name(), start: time.Now()}
		defer func() {
			if p := recover(); p != nil {
				m.fail(w, e, &panicError{p, debug.Stack()})
			}
		}()
		answer, err := m.answer(w, r, webhook, e)
		if err != nil {
			m.fail(w, e, err)
			return
		}
		// The review holds nothing any more: a client that does not read its answer must
		// not keep others waiting.
		e.review = nil
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // a client that has gone away is its own affair
		// The pod waits for the answer, and for nothing that is done with it.
		_ = http.NewResponseController(w).Flush()
		m.record(e)
	})
}

// answer returns the answer to one review. It writes nothing but headers.
func (m *Middleware) answer(w http.ResponseWriter, r *http.Request, webhook Webhook, e *exchange) ([]byte, error) {
	if err := m.options.Ready(); err != nil {
		return nil, &unavailableError{err}
	}
	body, release, err := m.bodies.read(w, r)
	defer release()
	if err != nil {
		return nil, err
	}
	done := connectionWorks(r.Context())
	defer func() { done(e.review != nil) }()
	ctx, cancel, err := m.withTimeout(r, e.start)
	if err != nil {
		return nil, err
	}
	defer cancel()
	version, review, err := decodeReview(body)
	if err != nil {
		return nil, err
	}
	review.memory.room = m.room
	defer review.drop()
	e.review = review
	if e.response, err = webhook.Review(ctx, review); err != nil {
		refusal, ok := refuseForMemory(review, err)
		if !ok {
			return nil, err
		}
		e.response = refusal
	}
	answer, err := encodeReview(version, review.UID, e.response)
	if err != nil {
		return nil, err
	}
	e.settle()
	return answer, nil
}

// withTimeout bounds the work by the time that the API server is willing to wait,
// which it says in the query: ?timeout=2s. A tenth of it is for the ways of the review and
// of the answer: a large review takes time to write and to send.
func (m *Middleware) withTimeout(r *http.Request, start time.Time) (context.Context, context.CancelFunc, error) {
	timeout := m.options.Timeout
	if text := r.URL.Query().Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, nil, Malformed("timeout %.32q; allowed is a positive duration such as 2s", text)
		}
		timeout = min(d, timeout)
	}
	ctx, cancel := context.WithDeadline(r.Context(), start.Add(timeout-timeout/10))
	return ctx, cancel, nil
}

// settle says that the answer is made. What only making it needed is let go.
func (e *exchange) settle() {
	e.took, e.dryRun = time.Since(e.start), e.review.DryRun
	e.line = append(e.attributes(), slog.String("outcome", string(e.response.verdict)), slog.String("reason", string(e.response.code)),
		slog.String("templates", e.response.injected()), slog.Duration("duration", e.took))
	for i := range e.response.Events {
		event := &e.response.Events[i]
		event.DryRun, event.Namespace, event.Message = e.review.DryRun, e.review.Namespace, printable(event.Message)
	}
	e.response.patch, e.response.lines, e.response.Warnings = nil, nil, nil
}

// record tells metrics, log and events about an answered review.
func (m *Middleware) record(e *exchange) {
	answer := e.response
	m.options.Metrics.observe(e.webhook, string(answer.verdict), answer.code, e.dryRun, e.took)
	m.options.Metrics.pod(answer, e.dryRun)
	m.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "answered a review", e.line...)
	for _, event := range answer.Events {
		m.options.Effects.Record(event)
	}
}

// fail answers a request that has no answer of a webhook.
func (m *Middleware) fail(w http.ResponseWriter, e *exchange, err error) {
	var unavailable *unavailableError
	var malformed *MalformedError
	var panicked *panicError
	var busy *busyError
	if errors.As(err, &busy) && !errors.Is(err, context.Canceled) {
		unavailable = &unavailableError{err}
	}
	switch {
	case unavailable != nil || errors.As(err, &unavailable):
		// The API server tries again, on another connection and so perhaps at another
		// replica.
		m.options.Metrics.unavailable(e.webhook)
		if !m.options.Advice {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Connection", "close")
		http.Error(w, unavailable.Error(), http.StatusServiceUnavailable)
		return
	case errors.As(err, &malformed):
		m.options.Metrics.observe(e.webhook, outcomeMalformed, "", e.isDryRun(), time.Since(e.start))
		http.Error(w, "pillion: "+boundMessage([]string{malformed.text}), malformed.status)
		return
	}
	if errors.Is(err, context.Canceled) {
		m.options.Metrics.observe(e.webhook, outcomeAbandoned, "", e.isDryRun(), time.Since(e.start))
		m.log(e).Info("the client went away before the review was answered", "duration", time.Since(e.start))
		http.Error(w, "pillion: the connection ended", http.StatusInternalServerError)
		return
	}
	m.options.Metrics.observe(e.webhook, outcomeError, reason.InternalError, e.isDryRun(), time.Since(e.start))
	log, text := m.log(e).With("error", err), boundMessage([]string{err.Error()})
	if errors.As(err, &panicked) {
		log, text = log.With("stack", string(panicked.stack)), "a panic while answering the review; pillion's log says where"
	}
	log.Error("answering a review failed")
	http.Error(w, "pillion: "+text, http.StatusInternalServerError)
}

// log returns a logger that says which review a line is about, as far as that is known.
func (m *Middleware) log(e *exchange) *slog.Logger {
	return slog.New(m.options.Logger.Handler().WithAttrs(e.attributes()))
}

// attributes say which review a line of the log is about, as far as that is known.
func (e *exchange) attributes() []slog.Attr {
	attributes := make([]slog.Attr, 0, 10)
	attributes = append(attributes, slog.String("webhook", e.webhook))
	if r := e.review; r != nil {
		attributes = append(attributes, slog.String("uid", string(r.UID)), slog.String("namespace", r.Namespace), slog.String("name", r.objectName()),
			slog.String("operation", r.Operation), slog.Bool("dryRun", r.DryRun))
	}
	return attributes
}
