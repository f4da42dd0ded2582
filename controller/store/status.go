package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/controller/reconcile"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// fieldManager is the name of Pillion's writes in managedFields.
const fieldManager = "pillion"

const (
	// Ready is the condition that reports whether a template is usable.
	Ready = "Ready"
	// Accepted is the condition that reports whether API servers accept pods that get the template.
	Accepted = "Accepted"
	// maxJitter spreads the writes of the replicas: most replicas see the first
	// replica's write before they would make the same one.
	maxJitter = 400 * time.Millisecond
	// The same status is written statusBurst times at once, and then every statusPause: replicas of
	// two versions, or with different values, disagree during an upgrade.
	statusBurst = 3
	statusPause = 6 * time.Minute
	// firstRetry and lastRetry are the pauses after a failed write.
	firstRetry, lastRetry = time.Second, time.Minute
	// acceptanceTime bounds a call of Acceptance.
	acceptanceTime = 5 * time.Second
	// noAnswerPause is the time until Acceptance is called again after [NoAnswer].
	noAnswerPause = 30 * time.Second
	// maxMessage bounds the message of a condition, in characters. The API allows four
	// times as much.
	maxMessage = 8 << 10
)

// StatusWriter writes verdicts into the status of their objects. All replicas run
// one, without a leader: each writes only a status that differs, and requires the
// version of the object that it has seen, so that only one of several concurrent
// writers succeeds.
type StatusWriter struct {
	// Acceptance returns the status, the reason and the message of the condition Accepted. It is called
	// for each new version of a template, and again while the reason is [NoAnswer]. If it is nil, the
	// condition is not written.
	Acceptance func(ctx context.Context, t *templates.Template) metav1.Condition

	client dynamic.Interface
	logger *slog.Logger
	loop   *reconcile.Loop[string]

	mu sync.Mutex
	// verdicts has the newest verdicts, and texts the last text of each, by the objects' keys in the cache.
	verdicts map[string]*Verdict
	texts    map[string]*statusText
	failure  string
}

// statusText is this replica's last status of an object, as text.
type statusText struct {
	text string
	// limiter bounds the writes of the text.
	limiter *rate.Limiter
}

// NewStatusWriter returns a writer for the statuses of templates. Its client needs the verb patch on the subresource
// status.
func NewStatusWriter(client dynamic.Interface, logger *slog.Logger) *StatusWriter {
	return &StatusWriter{client: client, logger: logger, verdicts: map[string]*Verdict{}, texts: map[string]*statusText{}, loop: reconcile.NewLoop[string](firstRetry, lastRetry)}
}

// Observe replaces the verdicts on all objects of a namespace, or of the cluster for "". It does not wait. The caller
// must not change them afterwards.
func (w *StatusWriter) Observe(namespace string, verdicts []Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := make(map[string]*Verdict, len(verdicts))
	for i := range verdicts {
		key := verdicts[i].Object.key()
		now[key] = &verdicts[i]
		w.loop.AddAfter(key, rand.N(maxJitter))
	}
	for key, v := range w.verdicts {
		if v.Object.Namespace == namespace && now[key] == nil {
			delete(w.verdicts, key)
			delete(w.texts, key)
		}
	}
	maps.Copy(w.verdicts, now)
}

// Run writes until ctx ends, which is no error.
func (w *StatusWriter) Run(ctx context.Context) error {
	w.loop.Run(ctx, 1, w.reconcile)
	return nil
}

// reconcile writes the status of one object if it differs and the limiter allows it.
func (w *StatusWriter) reconcile(ctx context.Context, key string) (time.Duration, error) {
	v, wait := w.verdict(key)
	if wait != 0 {
		return wait, nil
	}
	if w.needsAcceptance(v) {
		v.acceptance = w.acceptance(ctx, v)
	}
	again := reconcile.Never
	if v.acceptance != nil && v.acceptance.Reason == NoAnswer {
		again = noAnswerPause
	}
	if v.isWritten() {
		return again, nil
	}
	return again, w.write(ctx, key, v)
}

// needsAcceptance reports whether the object's status lacks the condition Accepted for its newest spec.
func (w *StatusWriter) needsAcceptance(v Verdict) bool {
	if w.Acceptance == nil || v.Template == nil || v.Reason != Compiled {
		return false
	}
	c := meta.FindStatusCondition(v.Object.Status.Conditions, Accepted)
	return c == nil || c.ObservedGeneration != v.Object.Generation || c.Reason == NoAnswer || v.Object.Status.Hash != v.Hash
}

// acceptance returns the condition Accepted of an object.
func (w *StatusWriter) acceptance(ctx context.Context, v Verdict) *metav1.Condition {
	ctx, cancel := context.WithTimeout(ctx, acceptanceTime)
	defer cancel()
	c := w.Acceptance(ctx, v.Template)
	c.Type, c.ObservedGeneration, c.Message = Accepted, v.Object.Generation, clip(c.Message)
	return &c
}

// verdict returns the verdict on an object, or the time until its status may be written. That time is
// [reconcile.Never] if the status does not differ.
func (w *StatusWriter) verdict(key string) (v Verdict, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	latest := w.verdicts[key]
	if latest == nil {
		return v, reconcile.Never
	}
	v = *latest
	last := w.texts[key]
	if text := v.text(); last == nil || last.text != text {
		last = &statusText{text: text, limiter: newStatusLimiter()}
		w.texts[key] = last
	}
	if v.isWritten() && !w.needsAcceptance(v) {
		return v, reconcile.Never
	}
	reserved := last.limiter.Reserve()
	if wait := reserved.Delay(); wait > 0 {
		reserved.Cancel()
		return v, wait
	}
	return v, 0
}

func newStatusLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(statusPause), statusBurst) }

// text returns equal texts for equal verdicts on the same spec.
func (v Verdict) text() string {
	return fmt.Sprintf("%d %s %s %s", v.Object.Generation, v.Hash, v.Reason, v.Message)
}

// status returns the status that the object should have. If the template does not
// compile, the hash stays: pods still get that version from replicas that have it.
func (v Verdict) status() v1alpha1.SidecarTemplateStatus {
	s := v1alpha1.SidecarTemplateStatus{ObservedGeneration: v.Object.Generation, Hash: v.Hash, Conditions: slices.Clone(v.Object.Status.Conditions)}
	condition := metav1.Condition{Type: Ready, Status: metav1.ConditionTrue, ObservedGeneration: v.Object.Generation, Reason: v.Reason, Message: v.Message}
	if v.Reason != Compiled {
		condition.Status = metav1.ConditionFalse
	}
	if v.Reason == CompileFailed {
		s.Hash = v.Object.Status.Hash
	}
	condition.Message = clip(condition.Message)
	meta.SetStatusCondition(&s.Conditions, condition)
	switch {
	case v.acceptance != nil:
		meta.SetStatusCondition(&s.Conditions, *v.acceptance)
	case v.Reason != Compiled:
		meta.RemoveStatusCondition(&s.Conditions, Accepted) // it is about an earlier version
	}
	return s
}

// clip shortens a message to maxMessage.
func clip(message string) string {
	if text := []rune(message); len(text) > maxMessage {
		return string(text[:maxMessage]) + "…"
	}
	return message
}

// isWritten reports whether the object has the status of the verdict.
func (v Verdict) isWritten() bool {
	want, has := v.status(), v.Object.Status
	if want.ObservedGeneration != has.ObservedGeneration || want.Hash != has.Hash {
		return false
	}
	return !slices.ContainsFunc([]string{Ready, Accepted}, func(condition string) bool {
		a, b := meta.FindStatusCondition(want.Conditions, condition), meta.FindStatusCondition(has.Conditions, condition)
		return a != nil && (b == nil || a.Status != b.Status || a.Reason != b.Reason || a.Message != b.Message || a.ObservedGeneration != b.ObservedGeneration)
	})
}

// write writes the status of an object. A conflict is not an error: the watch delivers the other client's version.
func (w *StatusWriter) write(ctx context.Context, key string, v Verdict) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": v.Object.ResourceVersion},
		"status":   v.status(),
	})
	if err == nil {
		_, err = w.resource(v.Object).Patch(ctx, v.Object.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		w.mu.Lock()
		defer w.mu.Unlock()
		if last := w.texts[key]; last != nil {
			last.limiter = newStatusLimiter()
		}
		return nil
	case apierrors.IsForbidden(err):
		w.fail(fmt.Sprintf("missing permission: the verb patch on the status of %s: %v", v.Object.Source(), err))
	case err != nil && ctx.Err() == nil:
		w.fail(fmt.Sprintf("writing the status of %s: %v", v.Object.Source(), err))
	default:
		w.fail("")
	}
	return err
}

// resource returns the resource of an object, in its namespace.
func (w *StatusWriter) resource(o Object) dynamic.ResourceInterface {
	if o.Namespace == "" {
		return w.client.Resource(Resource)
	}
	return w.client.Resource(NamespacedResource).Namespace(o.Namespace)
}

// readyReason returns the reason of the object's condition Ready.
func readyReason(o *Object) string {
	if c := meta.FindStatusCondition(o.Status.Conditions, Ready); c != nil {
		return c.Reason
	}
	return ""
}

// fail logs a failure once.
func (w *StatusWriter) fail(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if message != "" && message != w.failure {
		w.logger.Warn("the status of a template cannot be written", "error", message)
	}
	w.failure = message
}
