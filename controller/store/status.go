package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

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
	// maxJitter spreads the writes of the replicas: the first one's is seen by most
	// of the others before they would write the same.
	maxJitter = 400 * time.Millisecond
	// The same word is written statusBurst times at once, and then every statusPause: replicas of two
	// versions, or with different values, disagree while one replaces the other.
	statusBurst = 3
	statusPause = 6 * time.Minute
	// firstRetry and lastRetry are the pauses after a write that failed.
	firstRetry, lastRetry = time.Second, time.Minute
	// countPause is how long the number of namespaces in a status stands at least, and
	// countsPerSecond bounds the writes that are about such numbers alone: a template that
	// matches everything has another one with each new namespace.
	countPause      = 5 * time.Second
	countsPerSecond = 5
	// acceptanceTime bounds how long an API server is waited for.
	acceptanceTime = 5 * time.Second
	// countRetry is how long a number waits that found no place among them.
	countRetry = 500 * time.Millisecond
	// noAnswerPause is how long after an API server that did not answer it is asked again.
	noAnswerPause = 30 * time.Second
	// countWait is how long a first status waits for its number.
	countWait = 2 * time.Second
	// maxMessage is how much of a message a condition holds, in characters. The API
	// allows four times as much.
	maxMessage = 8 << 10
)

// StatusWriter writes verdicts into the status of their objects. All replicas run
// one, without a leader: each writes only what differs from what it would say, at
// the version of the object that it has seen, so that of several writers at the
// same time one succeeds.
type StatusWriter struct {
	// Acceptance returns the status, the reason and the message of the condition Accepted. It is called
	// for each new version of a template, and again while the reason is [NoAnswer]. Nil: the condition is
	// not written.
	Acceptance func(ctx context.Context, t *templates.Template) metav1.Condition

	// kind and resource are those of the objects.
	kind, resource string
	// uncounted: their statuses have no number of namespaces.
	uncounted bool
	patch     func(ctx context.Context, name string, data []byte) error
	logger    *slog.Logger
	loop      *reconcile.Loop[string]
	// counts bounds the writes that are about numbers alone.
	counts *rate.Limiter

	mu sync.Mutex
	// verdicts are the newest ones, and words what was last said of each. Their keys, which are
	// those of the loop, are the group and the name of the object. groups has the keys of each group.
	verdicts map[string]*Verdict
	words    map[string]*word
	groups   map[string][]string
	// namespaces has in how many namespaces each template is in force, as far as it is
	// counted.
	namespaces map[string]int
	failure    string
}

// word is what this replica has to say of an object, and since when.
type word struct {
	text  string
	since time.Time
	// limiter bounds how often the word is written.
	limiter *rate.Limiter
	// shown is the number that the status has, and shownSince since when.
	shown      int64
	shownSince time.Time
}

// NewStatusWriter returns a writer for SidecarTemplates of an API group. Its client
// needs the verb patch on their subresource status.
func NewStatusWriter(client dynamic.Interface, group string, logger *slog.Logger) *StatusWriter {
	resource := client.Resource(schema.GroupVersionResource{Group: group, Version: v1alpha1.Version, Resource: Resource})
	return newStatusWriter(func(ctx context.Context, name string, data []byte) error {
		_, err := resource.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, "status")
		return err
	}, logger)
}

func newStatusWriter(patch func(context.Context, string, []byte) error, logger *slog.Logger) *StatusWriter {
	return &StatusWriter{
		kind: v1alpha1.Kind, resource: Resource, groups: map[string][]string{},
		patch: patch, logger: logger, verdicts: map[string]*Verdict{}, words: map[string]*word{}, loop: reconcile.NewLoop[string](firstRetry, lastRetry),
		counts: rate.NewLimiter(countsPerSecond, countsPerSecond),
	}
}

// Observe takes the verdicts on all objects of a group: the templates of the cluster, the mirrors,
// or the templates of one namespace. It does not wait. The caller must not change them afterwards.
func (w *StatusWriter) Observe(group string, verdicts []Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.groups[group]
	delete(w.groups, group)
	for _, key := range before {
		delete(w.verdicts, key)
	}
	for i := range verdicts {
		key := group + " " + verdicts[i].Object.Name
		w.groups[group] = append(w.groups[group], key)
		w.verdicts[key] = &verdicts[i]
		w.loop.AddAfter(key, rand.N(maxJitter))
	}
	for _, key := range before {
		if w.verdicts[key] == nil {
			delete(w.words, key)
		}
	}
}

// Counted takes in how many namespaces each template is in force. It does not wait. The
// caller must not change the map afterwards.
func (w *StatusWriter) Counted(namespaces map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces = namespaces
	for key := range w.verdicts {
		w.loop.AddAfter(key, rand.N(maxJitter))
	}
}

// Run writes until ctx ends, which is no error.
func (w *StatusWriter) Run(ctx context.Context) error {
	w.loop.Run(ctx, 1, w.reconcile)
	return nil
}

// reconcile writes the status of one object, if that differs and may be written now.
func (w *StatusWriter) reconcile(ctx context.Context, key string) (time.Duration, error) {
	v, wait := w.verdict(key)
	if wait != 0 {
		return wait, nil
	}
	if w.isOpen(v) {
		v.acceptance = w.acceptance(ctx, v)
	}
	again := reconcile.Never
	if v.acceptance != nil && v.acceptance.Reason == NoAnswer {
		again = noAnswerPause
	}
	if v.written() {
		return again, nil
	}
	return again, w.write(ctx, key, v)
}

// isOpen reports whether the object's status does not say yet whether API servers accept its pods.
func (w *StatusWriter) isOpen(v Verdict) bool {
	if w.Acceptance == nil || v.Template == nil || v.Reason != Compiled {
		return false
	}
	c := meta.FindStatusCondition(v.Object.Status.Conditions, Accepted)
	return c == nil || c.ObservedGeneration != v.Object.Generation || c.Reason == NoAnswer || v.Object.Status.Hash != v.Hash
}

// acceptance asks whether API servers accept the pods of an object.
func (w *StatusWriter) acceptance(ctx context.Context, v Verdict) *metav1.Condition {
	ctx, cancel := context.WithTimeout(ctx, acceptanceTime)
	defer cancel()
	c := w.Acceptance(ctx, v.Template)
	c.Type, c.ObservedGeneration, c.Message = Accepted, v.Object.Generation, clipped(c.Message)
	return &c
}

// verdict returns the verdict on an object, or after how long its status may be written, [reconcile.Never] where
// there is nothing to write.
func (w *StatusWriter) verdict(key string) (v Verdict, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	latest := w.verdicts[key]
	if latest == nil {
		return v, reconcile.Never
	}
	v = *latest
	n, counted := w.namespaces[v.Object.Name]
	v.count(n, counted)
	said, open := w.word(key, v), w.isOpen(v)
	switch {
	case v.written() && !open:
		return v, reconcile.Never
	case v.saysAll() && !open: // the number alone
		if wait := time.Until(said.shownSince.Add(countPause)); wait > 0 {
			return v, wait + rand.N(maxJitter)
		}
		if !w.counts.Allow() {
			return v, countRetry
		}
		return v, 0
	case !w.uncounted && !counted && v.Reason == Compiled && v.Share == nil && v.shown() < 0 && time.Since(said.since) < countWait:
		return v, countWait
	}
	reserved := said.limiter.Reserve()
	if wait := reserved.Delay(); wait > 0 {
		reserved.Cancel()
		return v, wait
	}
	return v, 0
}

// word returns the word on an object, a new one where the verdict is another.
func (w *StatusWriter) word(key string, v Verdict) *word {
	said, now := w.words[key], time.Now()
	if text := v.text(); said == nil || said.text != text {
		said = &word{text: text, since: now, limiter: newStatusLimiter(), shown: v.shown()}
		w.words[key] = said
	}
	if shown := v.shown(); said.shown != shown {
		said.shown, said.shownSince = shown, now
	}
	return said
}

func newStatusLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(statusPause), statusBurst) }

// count notes in how many namespaces the template is in force. It keeps what the status has
// where that is not known: of a template that does not compile, replicas know different
// versions.
func (v *Verdict) count(n int, counted bool) {
	switch {
	case v.Reason == NameTaken:
		v.namespaces = 0
	case v.Reason == Compiled && counted:
		v.namespaces = int64(n)
	default:
		v.namespaces = v.shown()
	}
}

// shown is the number that the status has, or -1.
func (v Verdict) shown() int64 {
	if n := v.Object.Status.Namespaces; n != nil {
		return *n
	}
	return -1
}

// text is the same for verdicts that say the same of the same spec.
func (v Verdict) text() string {
	return fmt.Sprintf("%d %s %s %s %s", v.Object.Generation, v.From, v.Hash, v.Reason, v.Message)
}

// status is what the object's status should be. Of a template that does not
// compile it keeps the hash: pods still get that version from replicas that know it.
func (v Verdict) status() v1alpha1.SidecarTemplateStatus {
	s := v1alpha1.SidecarTemplateStatus{ObservedGeneration: v.Object.Generation, Source: v.From, Hash: v.Hash, Share: v.Share, Conditions: slices.Clone(v.Object.Status.Conditions)}
	condition := metav1.Condition{Type: Ready, Status: metav1.ConditionTrue, ObservedGeneration: v.Object.Generation, Reason: v.Reason, Message: v.Message}
	if v.Reason != Compiled {
		condition.Status = metav1.ConditionFalse
	}
	if v.Reason == CompileFailed {
		s.Hash = v.Object.Status.Hash
	}
	if v.namespaces >= 0 {
		s.Namespaces = &v.namespaces
	}
	condition.Message = clipped(condition.Message)
	meta.SetStatusCondition(&s.Conditions, condition)
	switch {
	case v.acceptance != nil:
		meta.SetStatusCondition(&s.Conditions, *v.acceptance)
	case v.Reason != Compiled:
		meta.RemoveStatusCondition(&s.Conditions, Accepted) // an earlier version's
	}
	return s
}

// clipped returns as much of a message as a condition has.
func clipped(message string) string {
	if text := []rune(message); len(text) > maxMessage {
		return string(text[:maxMessage]) + "…"
	}
	return message
}

// written reports whether the object's status says it already, the number of namespaces
// included.
func (v Verdict) written() bool { return v.saysAll() && v.shown() == v.namespaces }

// saysAll reports whether the object's status says it already, but perhaps the number of
// namespaces.
func (v Verdict) saysAll() bool {
	want, has := v.status(), v.Object.Status
	if want.ObservedGeneration != has.ObservedGeneration || want.Hash != has.Hash || want.Source != has.Source || !ptr.Equal(want.Share, has.Share) {
		return false
	}
	return !slices.ContainsFunc([]string{Ready, Accepted}, func(condition string) bool {
		a, b := meta.FindStatusCondition(want.Conditions, condition), meta.FindStatusCondition(has.Conditions, condition)
		return a != nil && (b == nil || a.Status != b.Status || a.Reason != b.Reason || a.Message != b.Message || a.ObservedGeneration != b.ObservedGeneration)
	})
}

// write writes the status of an object. A conflict is no error: the watch brings the object as somebody else wrote it.
func (w *StatusWriter) write(ctx context.Context, key string, v Verdict) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": v.Object.ResourceVersion},
		"status":   v.status(),
	})
	if err == nil {
		err = w.patch(ctx, v.Object.Name, data)
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		w.mu.Lock()
		defer w.mu.Unlock()
		if said := w.words[key]; said != nil {
			said.limiter = newStatusLimiter()
		}
		return nil
	case apierrors.IsForbidden(err):
		w.fail(fmt.Sprintf("missing permission: the verb patch on %s/status: %v", w.resource, err))
	case err != nil && ctx.Err() == nil:
		w.fail(fmt.Sprintf("writing the status of the %s %s: %v", w.kind, v.Object.Name, err))
	default:
		w.fail("")
	}
	return err
}

// fail logs what goes wrong, once.
func (w *StatusWriter) fail(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if message != "" && message != w.failure {
		w.logger.Warn("the status of a template cannot be written", "error", message)
	}
	w.failure = message
}
