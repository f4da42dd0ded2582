package injector

import (
	"context"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/reason"
)

// verdict is the answer of a validating webhook.
type verdict struct {
	allowed bool
	// code is why it is refused; it may be empty if it is allowed.
	code reason.Code
	// message says why it is refused. It may have several lines.
	message  string
	warnings []string
}

func allow(warnings ...string) verdict { return verdict{allowed: true, warnings: warnings} }

func refuse(code reason.Code, message string) verdict { return verdict{code: code, message: message} }

// validating serves a webhook that changes nothing, under the bounds of h. What
// judge cannot judge is a *badReview (answered with 4xx) or our own failure (500).
func (h *Handler) validating(webhook string, judge func(context.Context, *reviewRequest) (verdict, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, func(ctx context.Context, w http.ResponseWriter, body []byte, _ time.Time) {
			rev, err := decodeAnyReview(body)
			var v verdict
			if err == nil {
				v, err = judge(ctx, rev.Request)
			}
			if err != nil {
				h.invalid(w, webhook, err)
				return
			}
			h.judged(w, webhook, rev, v)
		})
	})
}

func (h *Handler) invalid(w http.ResponseWriter, webhook string, err error) {
	if _, ok := err.(*badReview); ok {
		h.Metrics.validation(webhook, "malformed", "", false)
		http.Error(w, "pillion: "+printable(err.Error()), http.StatusBadRequest)
		return
	}
	h.Logger.Error("answering a review failed", "webhook", webhook, "error", err)
	h.Metrics.validation(webhook, "error", reason.InternalError, false)
	http.Error(w, "pillion: "+printable(err.Error()), http.StatusInternalServerError)
}

func (h *Handler) judged(w http.ResponseWriter, webhook string, rev *review, v verdict) {
	response := &admissionv1.AdmissionResponse{UID: rev.Request.UID, Allowed: v.allowed, Warnings: boundWarnings(v.warnings)}
	outcome := "allowed"
	if !v.allowed {
		outcome = "denied"
		response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: printableLines(v.message) + " (" + string(v.code) + ")"}
		response.AuditAnnotations = map[string]string{"decision": string(v.code)}
	}
	answer, err := encodeReview(rev.APIVersion, response)
	if err != nil {
		h.invalid(w, webhook, err)
		return
	}
	h.Metrics.validation(webhook, outcome, v.code, rev.Request.dryRun())
	h.Logger.Info("answered a review", "webhook", webhook, "uid", rev.Request.UID, "namespace", rev.Request.Namespace, "name", rev.Request.Name,
		"operation", rev.Request.Operation, "outcome", outcome, "reason", v.code)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that has gone away is its own affair
}

// maxMessage bounds the message of a refusal, in characters.
const maxMessage = 8 << 10

// printableLines is printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	text := []rune(strings.Join(lines, "\n"))
	if len(text) > maxMessage {
		return string(text[:maxMessage]) + "…"
	}
	return string(text)
}
