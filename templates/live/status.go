package live

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// Ready is the condition that reports whether a template is usable.
	Ready = "Ready"
	// maxJitter spreads the writes of the replicas: the first one's is seen by most
	// of the others before they would write the same.
	maxJitter = 400 * time.Millisecond
	// firstPause is how long a replica lets stand what another one wrote over its
	// own word, the first time; then twice as long, up to lastPause. Replicas of two
	// versions, or with different values, disagree while one replaces the other.
	firstPause = 30 * time.Second
	lastPause  = 10 * time.Minute
	// maxMessage is how much of a message a condition holds, in characters. The API
	// allows four times as much.
	maxMessage = 8 << 10
)

// StatusWriter writes verdicts into the status of their objects. All replicas run
// one, without a leader: each writes only what differs from what it would say, at
// the version of the object that it has seen, so that of several writers at the
// same time one succeeds.
type StatusWriter struct {
	patch  func(ctx context.Context, name string, data []byte) error
	logger *slog.Logger
	jitter func() time.Duration

	wake chan struct{}
	mu   sync.Mutex
	// verdicts are the newest, by name; words what was last said of each.
	verdicts map[string]Verdict
	words    map[string]*word
	failure  string
}

// word is what this replica has to say of an object.
type word struct {
	text  string
	due   time.Time
	pause time.Duration
}

// NewStatusWriter returns a writer for SidecarTemplates of an API group. Its client
// needs the verb patch on their subresource status.
func NewStatusWriter(client dynamic.Interface, group string, logger *slog.Logger) *StatusWriter {
	resource := client.Resource(schema.GroupVersionResource{Group: group, Version: v1alpha1.Version, Resource: Resource})
	return newStatusWriter(func(ctx context.Context, name string, data []byte) error {
		_, err := resource.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "pillion"}, "status")
		return err
	}, logger)
}

func newStatusWriter(patch func(context.Context, string, []byte) error, logger *slog.Logger) *StatusWriter {
	return &StatusWriter{
		patch: patch, logger: logger, wake: make(chan struct{}, 1), words: map[string]*word{},
		jitter: func() time.Duration { return rand.N(maxJitter) },
	}
}

// Observe takes the verdicts on all objects that there are. It does not wait.
func (w *StatusWriter) Observe(verdicts []Verdict) {
	w.mu.Lock()
	w.verdicts = make(map[string]Verdict, len(verdicts))
	for _, v := range verdicts {
		w.verdicts[v.Object.Name] = v
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, which is no error.
func (w *StatusWriter) Run(ctx context.Context) error {
	for {
		due, next := w.due(time.Now())
		for _, v := range due {
			w.write(ctx, v)
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-w.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// due returns the verdicts to be written now, and how long to wait after that.
func (w *StatusWriter) due(now time.Time) (due []Verdict, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = lastPause
	for name := range w.words {
		if _, ok := w.verdicts[name]; !ok {
			delete(w.words, name)
		}
	}
	for name, v := range w.verdicts {
		if v.written() {
			continue
		}
		said := w.words[name]
		if text := v.text(); said == nil || said.text != text {
			said = &word{text: text, due: now.Add(w.jitter()), pause: firstPause}
			w.words[name] = said
		}
		if wait := said.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		said.due, said.pause = now.Add(said.pause), min(2*said.pause, lastPause)
		next = min(next, said.due.Sub(now))
		due = append(due, v)
	}
	slices.SortFunc(due, func(a, b Verdict) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return due, next
}

// text is the same for verdicts that say the same of the same spec.
func (v Verdict) text() string {
	return fmt.Sprintf("%d %s %s %s", v.Object.Generation, v.Hash, v.Reason, v.Message)
}

// status is what the object's status should be. Of a template that does not
// compile it keeps the hash: pods still get that version from replicas that know it.
func (v Verdict) status() v1alpha1.SidecarTemplateStatus {
	s := v1alpha1.SidecarTemplateStatus{ObservedGeneration: v.Object.Generation, Hash: v.Hash, Conditions: slices.Clone(v.Object.Status.Conditions)}
	condition := metav1.Condition{Type: Ready, Status: metav1.ConditionTrue, ObservedGeneration: v.Object.Generation, Reason: v.Reason, Message: v.Message}
	if v.Reason != Compiled {
		condition.Status = metav1.ConditionFalse
	}
	if v.Reason == CompileFailed {
		s.Hash = v.Object.Status.Hash
	}
	if text := []rune(condition.Message); len(text) > maxMessage {
		condition.Message = string(text[:maxMessage]) + "…"
	}
	meta.SetStatusCondition(&s.Conditions, condition)
	return s
}

// written reports whether the object's status says it already.
func (v Verdict) written() bool {
	want, has := v.status(), v.Object.Status
	if want.ObservedGeneration != has.ObservedGeneration || want.Hash != has.Hash {
		return false
	}
	a, b := meta.FindStatusCondition(want.Conditions, Ready), meta.FindStatusCondition(has.Conditions, Ready)
	return b != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}

func (w *StatusWriter) write(ctx context.Context, v Verdict) {
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
		w.forget(v.Object.Name)
	case apierrors.IsForbidden(err):
		w.fail(fmt.Sprintf("missing permission: the verb patch on %s/status: %v", Resource, err))
	case err != nil && ctx.Err() == nil:
		w.fail(fmt.Sprintf("writing the status of the SidecarTemplate %s: %v", v.Object.Name, err))
	default:
		w.fail("")
	}
}

// forget lets the next verdict on an object be written without a pause.
func (w *StatusWriter) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if said := w.words[name]; said != nil {
		said.due, said.pause = time.Now().Add(w.jitter()), firstPause
	}
}

// fail logs what goes wrong, once.
func (w *StatusWriter) fail(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if message != "" && message != w.failure {
		w.logger.Warn("status of templates", "error", message)
	}
	w.failure = message
}
