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

// Recorder records events. Implementations do not block, and write nothing on a dry run.
type Recorder interface {
	Record(events.Event)
}

// Options configure a [Middleware]. All fields are required but Ready and Advice.
type Options struct {
	Effects Recorder
	Metrics *Metrics
	Logger  *slog.Logger
	// Ready returns nil if reviews can be answered, or an error that names the missing part.
	// The default is always ready.
	Ready func() error
	// Timeout is the longest time that an API server waits for an answer. A review may
	// ask for less time, not for more.
	Timeout time.Duration
	Memory  Memory
	// Advice means that the webhooks only warn. A review that cannot be answered now then gets
	// no Retry-After: a retry would only delay the user's request.
	Advice bool
}

// Middleware serves webhooks over HTTP: readiness, bounds, timeouts, decoding, panics,
// encoding, metrics, the log and events. The webhooks of one Middleware share its bounds.
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

// exchange is one review with its answer.
type exchange struct {
	webhook string
	start   time.Time
	// review is nil until the body is decoded.
	review   *Review
	response Response
	// finish sets the following fields, which outlive the review.
	duration time.Duration
	dryRun   bool
	// logLine has the attributes of the line in the log.
	logLine []slog.Attr
}

func (e *exchange) isDryRun() bool { return e.dryRun || e.review != nil && e.review.DryRun }

// Handler serves one webhook. It answers a malformed request with 4xx, a request that it
// cannot serve now with 503 and Retry-After, and Pillion's own failure with 500, so that
// the failurePolicy decides.
func (m *Middleware) Handler(webhook Webhook) http.Handler {
	m.options.Metrics.initialize(webhook.Name())
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
		// The review's memory is free by now: a client that does not read its answer must
		// not delay others.
		e.review = nil
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // a client that went away needs no answer
		// The pod must not wait for metrics, the log and events.
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
	done := startWork(r.Context())
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
	defer review.release()
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
	e.finish()
	return answer, nil
}

// withTimeout bounds the work by the timeout in the API server's query: ?timeout=2s. A
// tenth of it is reserved for sending the review and the answer.
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

// finish prepares metrics, log and events after the answer has been encoded, and releases
// the parts of the response that only the encoding needed.
func (e *exchange) finish() {
	e.duration, e.dryRun = time.Since(e.start), e.review.DryRun
	e.logLine = append(e.attributes(), slog.String("outcome", string(e.response.verdict)), slog.String("reason", string(e.response.code)),
		slog.String("templates", e.response.injectedTemplates()), slog.Duration("duration", e.duration))
	for i := range e.response.Events {
		event := &e.response.Events[i]
		event.DryRun, event.Namespace, event.Message = e.review.DryRun, e.review.Namespace, printable(event.Message)
	}
	e.response.patch, e.response.lines, e.response.Warnings = nil, nil, nil
}

// record updates metrics, log and events for an answered review.
func (m *Middleware) record(e *exchange) {
	answer := e.response
	m.options.Metrics.observeReview(e.webhook, string(answer.verdict), answer.code, e.dryRun, e.duration)
	m.options.Metrics.observePod(answer, e.dryRun)
	m.options.Logger.LogAttrs(context.Background(), slog.LevelInfo, "answered a review", e.logLine...)
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
		// The API server tries again on another connection, and so perhaps at another
		// replica.
		m.options.Metrics.observeUnavailable(e.webhook)
		if !m.options.Advice {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Connection", "close")
		http.Error(w, unavailable.Error(), http.StatusServiceUnavailable)
		return
	case errors.As(err, &malformed):
		m.options.Metrics.observeReview(e.webhook, outcomeMalformed, "", e.isDryRun(), time.Since(e.start))
		http.Error(w, "pillion: "+boundMessage([]string{malformed.text}), malformed.status)
		return
	}
	if errors.Is(err, context.Canceled) {
		m.options.Metrics.observeReview(e.webhook, outcomeAbandoned, "", e.isDryRun(), time.Since(e.start))
		m.log(e).Info("the client went away before the review was answered", "duration", time.Since(e.start))
		http.Error(w, "pillion: the connection ended", http.StatusInternalServerError)
		return
	}
	m.options.Metrics.observeReview(e.webhook, outcomeError, reason.InternalError, e.isDryRun(), time.Since(e.start))
	log, text := m.log(e).With("error", err), boundMessage([]string{err.Error()})
	if errors.As(err, &panicked) {
		log, text = log.With("stack", string(panicked.stack)), "a panic while answering the review; pillion's log says where"
	}
	log.Error("answering a review failed")
	http.Error(w, "pillion: "+text, http.StatusInternalServerError)
}

// log returns a logger with the attributes of the exchange.
func (m *Middleware) log(e *exchange) *slog.Logger {
	return slog.New(m.options.Logger.Handler().WithAttrs(e.attributes()))
}

// attributes identify the review in the log. Before the review is decoded, only the webhook
// is known.
func (e *exchange) attributes() []slog.Attr {
	attributes := make([]slog.Attr, 0, 10)
	attributes = append(attributes, slog.String("webhook", e.webhook))
	if r := e.review; r != nil {
		attributes = append(attributes, slog.String("uid", string(r.UID)), slog.String("namespace", r.Namespace), slog.String("name", r.objectName()),
			slog.String("operation", r.Operation), slog.Bool("dryRun", r.DryRun))
	}
	return attributes
}
