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
	"k8s.io/client-go/util/workqueue"
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
	// firstPause is how long a replica lets stand what another one wrote over its
	// own word, the first time; then twice as long, up to lastPause. Replicas of two
	// versions, or with different values, disagree while one replaces the other.
	firstPause = 30 * time.Second
	lastPause  = 10 * time.Minute
	// countPause is how long the number of namespaces in a status stands at least, and
	// countsPerSecond bounds the writes that are about such numbers alone: a template that
	// matches everything has another one with each new namespace.
	countPause      = 5 * time.Second
	countsPerSecond = 5
	// acceptanceTime bounds how long an API server is waited for.
	acceptanceTime = 5 * time.Second
	// countRetry is how long a number waits that found no place among them.
	countRetry = 500 * time.Millisecond
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
	loop      *reconcile.Loop
	// pauses are how long a word stands that was written, and counts bounds the writes that are
	// about numbers alone.
	pauses workqueue.TypedRateLimiter[string]
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

// word is what this replica has to say of an object.
type word struct {
	text string
	due  time.Time
	// namespaces is the number that is to be written, shown the number that the status has,
	// and shownSince since when.
	namespaces, shown int64
	shownSince        time.Time
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
		patch: patch, logger: logger, verdicts: map[string]*Verdict{}, words: map[string]*word{}, loop: reconcile.NewLoop(nil),
		pauses: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, lastPause), counts: rate.NewLimiter(countsPerSecond, countsPerSecond),
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
		w.loop.Add(key)
	}
	for _, key := range before {
		if w.verdicts[key] == nil {
			delete(w.words, key)
			w.pauses.Forget(key)
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
		w.loop.Add(key)
	}
}

// Run writes until ctx ends, which is no error.
func (w *StatusWriter) Run(ctx context.Context) error {
	w.loop.Run(ctx, 1, w.look)
	return nil
}

// look writes the status of one object if it is due, and returns when to look again.
func (w *StatusWriter) look(ctx context.Context, key string) time.Duration {
	now := time.Now()
	v, wait := w.due(key, now)
	switch {
	case wait != 0:
		return wait
	case v.saysAll() && !w.isOpen(v) && !w.counts.AllowN(now, 1):
		return countRetry
	}
	w.mu.Lock()
	if said := w.words[key]; said != nil {
		said.due = now.Add(w.pauses.When(key))
	}
	w.mu.Unlock()
	if w.isOpen(v) {
		v.acceptance = w.acceptance(ctx, v)
	}
	if !v.written() {
		w.write(ctx, key, v)
	}
	_, wait = w.due(key, time.Now())
	return wait
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

// due returns the verdict on an object, and how long its status is not to be written.
func (w *StatusWriter) due(key string, now time.Time) (v Verdict, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	latest := w.verdicts[key]
	if latest == nil {
		return v, reconcile.Never
	}
	v = *latest
	n, counted := w.namespaces[v.Object.Name]
	v.count(n, counted)
	wait = w.say(key, v, now).due.Sub(now)
	switch {
	case v.written() && !w.isOpen(v):
		return v, reconcile.Never
	case !w.uncounted && !counted && v.Reason == Compiled && v.Share == nil && v.shown() < 0:
		wait += countWait
	}
	return v, max(wait, 0)
}

// say brings the word on an object up to date.
func (w *StatusWriter) say(key string, v Verdict, now time.Time) *word {
	said := w.words[key]
	if text := v.text(); said == nil || said.text != text {
		said = &word{text: text, due: now.Add(rand.N(maxJitter)), namespaces: v.namespaces, shown: v.shown(), shownSince: now}
		w.words[key] = said
		w.pauses.Forget(key)
		return said
	}
	if shown := v.shown(); said.shown != shown {
		said.shown, said.shownSince = shown, now
		said.wait(v)
	}
	if said.namespaces != v.namespaces {
		said.namespaces = v.namespaces
		w.pauses.Forget(key)
		if v.saysAll() {
			said.due = now.Add(rand.N(maxJitter))
		}
		said.wait(v)
	}
	return said
}

// wait puts off what is about the number alone until the one that is shown has stood long
// enough, whichever replica wrote it.
func (said *word) wait(v Verdict) {
	if soonest := said.shownSince.Add(countPause); v.saysAll() && soonest.After(said.due) {
		said.due = soonest
	}
}

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

func (w *StatusWriter) write(ctx context.Context, key string, v Verdict) {
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
		// Somebody was first; what the object is now comes from the watch.
		w.forget(key)
	case apierrors.IsForbidden(err):
		w.fail(fmt.Sprintf("missing permission: the verb patch on %s/status: %v", w.resource, err))
	case err != nil && ctx.Err() == nil:
		w.fail(fmt.Sprintf("writing the status of the %s %s: %v", w.kind, v.Object.Name, err))
	default:
		w.fail("")
	}
}

// forget lets the next verdict on an object be written without a pause.
func (w *StatusWriter) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pauses.Forget(key)
	if said := w.words[key]; said != nil {
		said.due = time.Now().Add(rand.N(maxJitter))
		if v := w.verdicts[key]; v != nil {
			said.wait(*v)
		}
	}
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
