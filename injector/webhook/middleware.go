package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/pillion-dev/pillion/injector/effects"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Recorder takes note of events. Implementations do not block, and do nothing outside
// on a dry run.
type Recorder interface {
	Record(effects.Event)
}

// Options are what a [Middleware] works with. All fields are required but Ready and
// MaxInFlight.
type Options struct {
	Effects Recorder
	Metrics *Metrics
	Logger  *slog.Logger
	// Ready returns what is missing before reviews can be answered well, and nil if
	// nothing is. Nil is always ready.
	Ready func() error
	// MaxInFlight bounds how many reviews are worked on at once; others get 503.
	// Default: 256.
	MaxInFlight int
}

// Middleware does for every webhook what has to do with HTTP: readiness, bounds,
// timeouts, decoding, panics, encoding, metrics, the log and events. The webhooks that
// one Middleware serves share its bounds.
type Middleware struct {
	options Options
	slots   chan struct{}
	bodies  bodies
}

// NewMiddleware returns a middleware.
func NewMiddleware(o Options) *Middleware {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 256
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	return &Middleware{options: o, slots: make(chan struct{}, o.MaxInFlight)}
}

// exchange is what is known so far of one review and its answer.
type exchange struct {
	webhook string
	start   time.Time
	// review is nil until the body is decoded.
	review   *Review
	response Response
}

func (e *exchange) dryRun() bool { return e.review != nil && e.review.DryRun }

// Handler serves one webhook. A request that is no review is answered with 4xx, one
// that cannot be answered now with 503 and Retry-After, and Pillion's own failure with
// 500, so that the failurePolicy decides.
func (m *Middleware) Handler(webhook Webhook) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{webhook: webhook.Name(), start: time.Now()}
		defer func() {
			if p := recover(); p != nil {
				m.fail(w, e, &panicError{p, debug.Stack()})
			}
		}()
		if err := m.serve(w, r, webhook, e); err != nil {
			m.fail(w, e, err)
		}
	})
}

// serve answers one review. Nothing is written before an error.
func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, webhook Webhook, e *exchange) error {
	if err := m.options.Ready(); err != nil {
		return &unavailableError{err}
	}
	body, release, err := m.bodies.read(w, r)
	defer release()
	if err != nil {
		return err
	}
	// Only after the body: a client that never finishes sending must not hold a slot.
	// The server's read timeout ends it.
	free, err := m.slot()
	if err != nil {
		return err
	}
	defer free()
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return err
	}
	defer cancel()
	version, review, err := decodeReview(body)
	if err != nil {
		return err
	}
	e.review = review
	if e.response, err = webhook.Review(ctx, review); err != nil {
		return err
	}
	answer, err := encodeReview(version, review.UID, e.response)
	if err != nil {
		return err
	}
	m.record(e)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that has gone away is its own affair
	return nil
}

// slot takes one of the reviews that may be worked on at once. The caller gives it
// back with free.
func (m *Middleware) slot() (free func(), err error) {
	select {
	case m.slots <- struct{}{}:
		return func() { <-m.slots }, nil
	default:
		return nil, &unavailableError{fmt.Errorf("%d reviews are being answered, which is the limit", m.options.MaxInFlight)}
	}
}

// withTimeout bounds the work by the time that the API server is willing to wait,
// which it says in the query: ?timeout=2s.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	const most = 30 * time.Second // the API's own limit of timeoutSeconds
	timeout := most
	if text := r.URL.Query().Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, nil, Malformed("timeout %q; allowed is a positive duration such as 2s", text)
		}
		timeout = min(d, most)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// record tells metrics, log and events about an answered review.
func (m *Middleware) record(e *exchange) {
	r, answer := e.review, e.response
	took := time.Since(e.start)
	m.options.Metrics.observe(e.webhook, string(answer.verdict), answer.code, r.DryRun, took)
	m.options.Metrics.templates(answer.Templates, r.DryRun)
	m.log(e).Info("answered a review", "outcome", string(answer.verdict), "reason", answer.code, "templates", answer.injected(), "duration", took)
	for _, event := range answer.Events {
		event.DryRun, event.Namespace, event.Message = r.DryRun, r.Namespace, printable(event.Message)
		m.options.Effects.Record(event)
	}
}

// fail answers a request that has no answer of a webhook.
func (m *Middleware) fail(w http.ResponseWriter, e *exchange, err error) {
	var unavailable *unavailableError
	var malformed *MalformedError
	var panicked *panicError
	switch {
	case errors.As(err, &unavailable):
		// The API server tries again, on another connection and so perhaps at another
		// replica.
		m.options.Metrics.unavailable(e.webhook)
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		http.Error(w, unavailable.Error(), http.StatusServiceUnavailable)
		return
	case errors.As(err, &malformed):
		m.options.Metrics.observe(e.webhook, "malformed", "", e.dryRun(), time.Since(e.start))
		http.Error(w, "pillion: "+printable(malformed.text), malformed.status)
		return
	}
	m.options.Metrics.observe(e.webhook, "error", reason.InternalError, e.dryRun(), time.Since(e.start))
	log, text := m.log(e).With("error", err), printable(err.Error())
	if errors.As(err, &panicked) {
		log, text = log.With("stack", string(panicked.stack)), "a panic while answering the review; pillion's log says where"
	}
	log.Error("answering a review failed")
	http.Error(w, "pillion: "+text, http.StatusInternalServerError)
}

// log returns a logger that says which review a line is about, as far as that is known.
func (m *Middleware) log(e *exchange) *slog.Logger {
	log := m.options.Logger.With("webhook", e.webhook)
	if r := e.review; r != nil {
		log = log.With("uid", r.UID, "namespace", r.Namespace, "name", r.objectName(), "operation", r.Operation, "dryRun", r.DryRun)
	}
	return log
}
