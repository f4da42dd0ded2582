package injector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/effects"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// Namespaces returns a namespace's metadata.
type Namespaces interface {
	Get(ctx context.Context, name string) (templates.Namespace, error)
}

// Recorder takes note of outcomes outside of the answer. Implementations do not
// block.
type Recorder interface {
	Record(effects.Outcome)
}

// Options are what a [Handler] works with. All fields are required but Ready.
type Options struct {
	Pipeline   *Pipeline
	Namespaces Namespaces
	// Templates returns the set in force.
	Templates func() *templates.Set
	Effects   Recorder
	Metrics   *Metrics
	Logger    *slog.Logger
	// Ready returns what is missing before requests can be answered well, and
	// nil if nothing is. Nil is always ready.
	Ready func() error
	// MaxInFlight bounds how many reviews are worked on at once; others get 503.
	// Default: 256.
	MaxInFlight int
}

// Handler answers admission reviews of pods over HTTP.
type Handler struct {
	Options
	slots  chan struct{}
	bodies bodies
}

// NewHandler returns a handler.
func NewHandler(o Options) *Handler {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 256
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	return &Handler{Options: o, slots: make(chan struct{}, o.MaxInFlight)}
}

// ServeHTTP answers one review. What is no review is answered with 4xx, what
// cannot be answered now with 503 and Retry-After, and Pillion's own failure with
// 500, so that the failurePolicy decides.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r, h.answer) }

// answerer answers the review in a body.
type answerer func(ctx context.Context, w http.ResponseWriter, body []byte, start time.Time)

// serve is what all webhooks share: readiness, bounds, timeouts and panics.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, answer answerer) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			h.Logger.Error("answering a review failed", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			h.Metrics.observe("error", reason.InternalError, false, time.Since(start))
			http.Error(w, "pillion failed while answering the review; its log says where", http.StatusInternalServerError)
		}
	}()
	if err := h.Ready(); err != nil {
		h.unavailable(w, err)
		return
	}
	body, release, status, err := h.bodies.read(w, r)
	defer release()
	if errors.Is(err, errTooMuch) {
		h.unavailable(w, err)
		return
	}
	if err != nil {
		h.reject(w, status, err, start)
		return
	}
	// Only after the body, so that clients which never finish sending hold up
	// nobody; the server's read timeout ends them.
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.unavailable(w, fmt.Errorf("%d reviews are being answered, which is the limit", h.MaxInFlight))
		return
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		h.reject(w, http.StatusBadRequest, err, start)
		return
	}
	defer cancel()
	answer(ctx, w, body, start)
}

// unavailable tells the API server to try again, on another connection and so
// perhaps at another replica.
func (h *Handler) unavailable(w http.ResponseWriter, why error) {
	h.Metrics.unavailable()
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	http.Error(w, "pillion cannot answer now: "+why.Error(), http.StatusServiceUnavailable)
}

// withTimeout bounds the work by what the API server is willing to wait, which
// it says in the query: ?timeout=2s.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	const most = 30 * time.Second // the API's own limit of timeoutSeconds
	timeout := most
	if text := r.URL.Query().Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, nil, fmt.Errorf("timeout %q; allowed is a positive duration such as 2s", printable(text))
		}
		timeout = min(d, most)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

func (h *Handler) reject(w http.ResponseWriter, status int, err error, start time.Time) {
	h.Metrics.observe("malformed", "", false, time.Since(start))
	http.Error(w, "pillion: "+printable(err.Error()), status)
}

func (h *Handler) answer(ctx context.Context, w http.ResponseWriter, body []byte, start time.Time) {
	rev, err := decodeReview(body)
	if err != nil {
		h.reject(w, http.StatusBadRequest, err, start)
		return
	}
	pod, err := rev.Request.pod()
	if err != nil {
		h.reject(w, http.StatusBadRequest, err, start)
		return
	}
	log := h.Logger.With("uid", rev.Request.UID, "namespace", rev.Request.Namespace, "pod", rev.Request.podName(pod), "dryRun", rev.Request.dryRun())
	out, err := h.inject(ctx, rev.Request, pod)
	if err == nil {
		err = h.write(w, rev, out)
	}
	if err != nil {
		log.Error("answering a review failed", "error", err)
		h.Metrics.observe("error", reason.InternalError, rev.Request.dryRun(), time.Since(start))
		http.Error(w, "pillion: "+printable(err.Error()), http.StatusInternalServerError)
		return
	}
	h.record(log, rev.Request, pod, out, start)
}

func (h *Handler) inject(ctx context.Context, r *reviewRequest, pod map[string]any) (Outcome, error) {
	ns, err := h.Namespaces.Get(ctx, r.Namespace)
	if err != nil {
		return Outcome{}, fmt.Errorf("reading namespace %q of the pod: %w", r.Namespace, err)
	}
	return h.Pipeline.Inject(Request{
		Operation: r.Operation, Subresource: r.SubResource, FromNode: r.fromNode(),
		Pod: pod, Namespace: ns, Templates: h.Templates(),
	})
}

func (h *Handler) write(w http.ResponseWriter, rev *review, out Outcome) error {
	response := &admissionv1.AdmissionResponse{UID: rev.Request.UID, Allowed: out.Allowed, Warnings: boundWarnings(out.Warnings)}
	switch {
	case !out.Allowed:
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: printable(out.Message)}
		response.AuditAnnotations = map[string]string{"decision": string(out.Code)}
	case len(out.Operations) > 0:
		operations, err := patch.Marshal(out.Operations)
		if err != nil {
			return fmt.Errorf("encoding the patch: %w", err)
		}
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = operations, &kind
		response.AuditAnnotations = map[string]string{"decision": string(out.Code), "templates": injectedList(out.Templates)}
	case out.Code != reason.Injected && out.Code != reason.NotRequested:
		response.AuditAnnotations = map[string]string{"decision": string(out.Code)}
	}
	answer, err := encodeReview(rev.APIVersion, response)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that has gone away is its own affair
	return nil
}

// injectedList names the injected templates with their hashes: a=1f00,b=2e41.
func injectedList(outcomes []TemplateOutcome) string {
	var list []string
	for _, t := range outcomes {
		if t.Code == reason.Injected {
			list = append(list, t.Name+"="+t.Hash)
		}
	}
	return strings.Join(list, ",")
}

// record tells metrics, log and effects about an answered review.
func (h *Handler) record(log *slog.Logger, r *reviewRequest, pod map[string]any, out Outcome, start time.Time) {
	outcome := "unchanged"
	switch {
	case !out.Allowed:
		outcome = "denied"
	case len(out.Operations) > 0:
		outcome = "injected"
	}
	h.Metrics.observe(outcome, out.Code, r.dryRun(), time.Since(start))
	h.Metrics.templates(out, r.dryRun())
	log.Info("answered a review", "outcome", outcome, "reason", out.Code, "templates", injectedList(out.Templates), "duration", time.Since(start))
	for _, t := range out.Templates {
		if !t.Asked || t.Code == reason.Injected || t.Code == reason.NothingToInject {
			continue
		}
		h.Effects.Record(effects.Outcome{DryRun: r.dryRun(), Namespace: r.Namespace, Pod: pod, Code: t.Code, Message: printable(t.Name + ": " + t.Why)})
	}
	if !out.Allowed && len(out.Templates) == 0 || out.Code == reason.BadAnnotation {
		h.Effects.Record(effects.Outcome{DryRun: r.dryRun(), Namespace: r.Namespace, Pod: pod, Code: out.Code, Message: printable(out.Message)})
	}
}
