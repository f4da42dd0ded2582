package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/controller/reconcile"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// mirrorsPerSecond bounds the writes of mirrors.
	mirrorsPerSecond, mirrorsBurst = 10, 20
	// firstAgain is how long after a write the same mirror is written again at the soonest,
	// where it is again not as this replica would have it; then twice as long, up to
	// lastAgain. Replicas disagree for as long as their nodes have different versions of a
	// ConfigMap. A mirror that has been as it should be for lastAgain starts anew.
	firstAgain, lastAgain = time.Second, time.Minute
	// goneFor is how long a template has not been served before its mirror is deleted.
	goneFor = 3 * time.Second
	// notReadyPause is how often a replica that may not write looks whether it may, and
	// firstHeld how long it waits first where the release is another version's or a right is
	// missing; then twice as long, up to lastHeld.
	notReadyPause       = 500 * time.Millisecond
	firstHeld, lastHeld = time.Second, 30 * time.Second
	mirrorTimeout       = 10 * time.Second
)

// MirrorRevisionKey returns the key of the annotation of the policy that says which version
// of a release writes mirrors.
func MirrorRevisionKey(prefix string) string { return prefix + "/mirror-revision" }

// MirrorOptions are what [NewMirrorWriter] needs. All fields are required.
type MirrorOptions struct {
	Client dynamic.Interface
	// Prefix is the annotation prefix and the API group, Values are the installer's.
	Prefix string
	Values map[string]any
	// Policy is the name of the ValidatingAdmissionPolicy that holds this process to mirrors.
	// Without it nothing is written.
	Policy string
	// Revision is what the policy's annotation [MirrorRevisionKey] says to the version of the
	// release that this replica is of. Replicas of another version write nothing.
	Revision string
	// Ready returns nil while all templates and all objects are known as they are.
	Ready func() error
	// Verdicts takes what the status of each mirror is to say. It must return soon, and must not
	// call the writer.
	Verdicts func([]Verdict)
	Logger   *slog.Logger
}

// MirrorWriter makes, changes and deletes the mirrors. All replicas run one, without a
// leader: each writes only what differs, at the version of the object that it has seen. Make
// one with [NewMirrorWriter].
type MirrorWriter struct {
	o MirrorOptions
	// templates and policies make the requests.
	templates, policies dynamic.NamespaceableResourceInterface

	limiter *rate.Limiter
	loop    *reconcile.Loop[string]
	// pauses are how long a mirror rests after a write.
	pauses workqueue.TypedRateLimiter[string]

	mu     sync.Mutex
	latest Mirrors
	// objects are those of latest, and wanted has what they are to be, by name.
	objects map[string]MirrorObject
	wanted  map[string]wantedMirror
	// kept has what the API server made of a digest that it does not keep as it was sent, and
	// refused the manifests that it does not take.
	kept    map[string]string
	refused map[string][]byte
	tasks   map[string]*mirrorTask
	// heldUntil is until when nothing is written, held how long the last such pause is, and
	// failure why.
	heldUntil time.Time
	held      time.Duration
	failure   string
}

// wantedMirror is what a mirror is to be. The content is made again when it is written.
type wantedMirror struct {
	served Served
	digest string
}

// sameContent reports whether the mirror of a template is to be the same.
func (m wantedMirror) sameContent(s Served) bool {
	return m.served.Source == s.Source && s.Manifest != nil && bytes.Equal(m.served.Manifest, s.Manifest)
}

// mirrorTask is what is to be done about one mirror.
type mirrorTask struct {
	what string
	// due is when, last when it was done last, and rests until when nothing is done then.
	due, last, rests time.Time
}

// NewMirrorWriter returns a writer that does nothing until [MirrorWriter.Run] runs. Its client
// needs the verbs create, update and delete on SidecarTemplates, and get on the policy.
func NewMirrorWriter(o MirrorOptions) *MirrorWriter {
	return &MirrorWriter{
		o:         o,
		templates: o.Client.Resource(schema.GroupVersionResource{Group: o.Prefix, Version: v1alpha1.Version, Resource: Resource}),
		policies:  o.Client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}),
		limiter:   rate.NewLimiter(mirrorsPerSecond, mirrorsBurst), loop: reconcile.NewLoop[string](firstAgain, lastAgain),
		pauses: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstAgain, lastAgain),
		wanted: map[string]wantedMirror{}, kept: map[string]string{}, refused: map[string][]byte{}, tasks: map[string]*mirrorTask{},
	}
}

// Observe takes what there is to mirror. It does not wait. The caller must not change it
// afterwards.
func (w *MirrorWriter) Observe(m Mirrors) {
	w.mu.Lock()
	w.latest = m
	w.mu.Unlock()
	w.loop.Add(allMirrors)
}

// allMirrors is the name in the loop that stands for all mirrors.
const allMirrors = ""

// all works out what the mirrors are to be, and has each looked at.
func (w *MirrorWriter) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects = make(map[string]MirrorObject, len(w.latest.Objects))
	for _, o := range w.latest.Objects {
		w.objects[o.Name] = o
		w.loop.Add(o.Name)
	}
	wanted := make(map[string]wantedMirror, len(w.latest.Served))
	for _, s := range w.latest.Served {
		next := wantedMirror{served: s}
		if before, ok := w.wanted[s.Name]; ok && before.digest != "" && before.sameContent(s) {
			next.digest = before.digest
		} else if s.Manifest != nil {
			next.digest = w.content(s).digest()
		}
		wanted[s.Name] = next
		w.loop.Add(s.Name)
	}
	w.wanted = wanted
	maps.DeleteFunc(w.refused, func(name string, _ []byte) bool { _, ok := wanted[name]; return !ok })
	digests := map[string]bool{}
	for _, m := range wanted {
		digests[m.digest] = true
	}
	maps.DeleteFunc(w.kept, func(digest, _ string) bool { return !digests[digest] })
	w.judge()
}

func (w *MirrorWriter) content(s Served) content {
	refused, ok := w.refused[s.Name]
	return contentOf(s, w.o.Values, w.o.Policy, ok && bytes.Equal(refused, s.Manifest))
}

// asWanted reports whether a mirror is as it is to be.
func (w *MirrorWriter) asWanted(o MirrorObject, want wantedMirror) bool {
	return want.digest == "" || o.Digest == want.digest || w.kept[want.digest] == o.Digest
}

// judge tells what the status of the mirrors is to say that are as they are to be.
func (w *MirrorWriter) judge() {
	var verdicts []Verdict
	for _, o := range w.latest.Objects {
		want, ok := w.wanted[o.Name]
		if ok && !o.Going && w.asWanted(o, want) {
			s := want.served
			verdicts = append(verdicts, Verdict{Object: o.Object, From: s.From, Hash: s.Hash, Reason: s.Reason, Message: s.Message, Share: s.Share})
		}
	}
	w.o.Verdicts(verdicts)
}

// The actions on a mirror.
const (
	makeMirror   = "make"
	changeMirror = "change"
	deleteMirror = "delete"
)

// mirrorAction is one request about a mirror.
type mirrorAction struct {
	what string
	name string
	want wantedMirror
	// object is the mirror that there is, if any.
	object MirrorObject
}

// todo returns the action that a mirror needs. It returns none where all mirrors are unknown.
func (w *MirrorWriter) todo(name string) mirrorAction {
	o, there := w.objects[name]
	want, wanted := w.wanted[name]
	a := mirrorAction{name: name, want: want, object: o}
	switch {
	case w.latest.Objects == nil || o.Going:
	case there && !wanted:
		a.what = deleteMirror
	case there && !w.asWanted(o, want):
		a.what = changeMirror
	case !there && wanted && want.digest != "" && !w.latest.Taken[name]:
		a.what = makeMirror
	}
	return a
}

// due returns the action that a mirror needs, and how long it is not to be taken.
func (w *MirrorWriter) due(name string, now time.Time) (a mirrorAction, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a = w.todo(name)
	task := w.tasks[name]
	switch {
	case a.what == "" && task == nil:
		return a, reconcile.Never
	case a.what == "":
		task.what = ""
		if wait := task.last.Add(lastAgain).Sub(now); wait > 0 {
			return a, wait
		}
		delete(w.tasks, name)
		w.pauses.Forget(name)
		return a, reconcile.Never
	case task == nil:
		task = &mirrorTask{}
		w.tasks[name] = task
	}
	if what := a.what + " " + a.want.digest; task.what != what {
		task.what, task.due = what, now.Add(rand.N(maxJitter))
		if a.what == deleteMirror {
			task.due = task.due.Add(goneFor)
		}
		if task.due.Before(task.rests) {
			task.due = task.rests
		}
	}
	return a, max(task.due.Sub(now), w.heldUntil.Sub(now), 0)
}

// Run keeps the mirrors until ctx ends, which is no error.
func (w *MirrorWriter) Run(ctx context.Context) error {
	w.loop.Run(ctx, 1, func(ctx context.Context, name string) (time.Duration, error) { return w.look(ctx, name), nil })
	return nil
}

// look takes the action that a mirror needs, if it is due, and returns when to look again.
func (w *MirrorWriter) look(ctx context.Context, name string) time.Duration {
	if name == allMirrors {
		w.all()
		return reconcile.Never
	}
	if _, wait := w.due(name, time.Now()); wait != 0 {
		return wait
	}
	policy, wait := w.permitted(ctx)
	if wait != 0 {
		return wait
	}
	if w.limiter.Wait(ctx) != nil {
		return reconcile.Never
	}
	a, wait := w.due(name, time.Now()) // another replica may have been faster
	if wait != 0 {
		return wait
	}
	limited, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	err := w.take(limited, a, policy.GetUID())
	switch {
	case ctx.Err() != nil:
		return reconcile.Never
	case err != nil:
		return w.hold(fmt.Sprintf("%sing the mirror of template %s", strings.TrimSuffix(a.what, "e"), a.name), err)
	}
	w.mu.Lock()
	if w.failure != "" {
		w.o.Logger.Info("templates are mirrored again")
	}
	w.failure, w.held = "", 0
	w.mu.Unlock()
	_, wait = w.due(name, time.Now())
	return wait
}

// permitted returns the policy that owns the mirrors, or how long this replica is not to write.
func (w *MirrorWriter) permitted(ctx context.Context) (policy *unstructured.Unstructured, wait time.Duration) {
	if w.o.Ready() != nil {
		return nil, w.rest(notReadyPause)
	}
	limited, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	policy, err := w.policies.Get(limited, w.o.Policy, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return nil, reconcile.Never
	case apierrors.IsNotFound(err):
		return nil, w.hold(fmt.Sprintf("the ValidatingAdmissionPolicy %s is missing, so templates are not mirrored; restore it with helm upgrade --reset-then-reuse-values", w.o.Policy), nil)
	case err != nil:
		return nil, w.hold(fmt.Sprintf("reading the ValidatingAdmissionPolicy %s", w.o.Policy), w.explain("get", "validatingadmissionpolicies", err))
	}
	if revision := policy.GetAnnotations()[MirrorRevisionKey(w.o.Prefix)]; revision != w.o.Revision {
		// No failure: the release has another version, which writes.
		w.o.Logger.Debug("another version of the release mirrors templates", "own", w.o.Revision, "release", revision)
		return nil, w.longer()
	}
	return policy, 0
}

// take takes one action. Its error is one that is not about this mirror alone, or is not
// known.
func (w *MirrorWriter) take(ctx context.Context, a mirrorAction, policy types.UID) error {
	w.mu.Lock()
	task, now := w.tasks[a.name], time.Now()
	task.last, task.rests = now, now.Add(w.pauses.When(a.name))
	task.due = task.rests
	c := content{}
	if a.what != deleteMirror {
		c = w.content(a.want.served)
	}
	w.mu.Unlock()
	var answer *unstructured.Unstructured
	var err error
	verb := "create"
	switch a.what {
	case makeMirror:
		answer, err = w.templates.Create(ctx, c.object(a.name, w.o.Prefix, w.o.Policy, policy), metav1.CreateOptions{FieldManager: fieldManager})
	case changeMirror:
		verb = "update"
		object := c.object(a.name, w.o.Prefix, w.o.Policy, policy)
		object.SetUID(a.object.UID)
		object.SetResourceVersion(a.object.ResourceVersion)
		answer, err = w.templates.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
	case deleteMirror:
		verb = "delete"
		err = w.templates.Delete(ctx, a.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.object.UID, ResourceVersion: &a.object.ResourceVersion}})
	}
	switch {
	case err == nil:
		w.done(a, c, answer)
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return nil // somebody was first; what the object is now comes from the watch
	case a.what != deleteMirror && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && w.refuse(a.want):
		w.o.Logger.Warn("the API server rejects a template's spec; its read-only copy injects nothing, and the copy's status says what is wrong", "template", a.name, "error", err)
		return nil
	}
	return w.explain(verb, Resource+"."+w.o.Prefix, err)
}

// done notes what came of an action.
func (w *MirrorWriter) done(a mirrorAction, c content, answer *unstructured.Unstructured) {
	w.o.Logger.Info("mirror of a template", "action", a.what, "template", a.name)
	if answer == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if is, sent := mirrorOf(answer, w.o.Prefix).Digest, c.digest(); is != sent {
		w.kept[sent] = is
		w.judge()
	}
}

// refuse notes that the API server does not take a template's spec. It reports false if that
// was known.
func (w *MirrorWriter) refuse(want wantedMirror) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, manifest := want.served.Name, want.served.Manifest
	if before, ok := w.refused[name]; ok && bytes.Equal(before, manifest) {
		return false
	}
	w.refused[name] = manifest
	if now, ok := w.wanted[name]; ok && bytes.Equal(now.served.Manifest, manifest) {
		now.digest = w.content(now.served).digest()
		w.wanted[name] = now
	}
	if task := w.tasks[name]; task != nil {
		task.rests = time.Time{} // the stand-in is written at once
	}
	return true
}

// explain names the right that is missing.
func (w *MirrorWriter) explain(verb, resource string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("missing permission: the verb %s on %s; the chart grants it with rbac.create=true, and mirrorTemplates=false does without: %w", verb, resource, err)
	}
	return err
}

// hold logs once why no mirror is written, and returns how long none is.
func (w *MirrorWriter) hold(doing string, err error) time.Duration {
	message := doing
	if err != nil {
		message += ": " + err.Error()
	}
	w.mu.Lock()
	if message != w.failure {
		w.o.Logger.Warn("read-only copies of templates cannot be written; the templates are in force nevertheless", "error", message)
	}
	w.failure = message
	w.mu.Unlock()
	return w.longer()
}

// longer has no mirror written for twice as long as the last time, and returns how long.
func (w *MirrorWriter) longer() time.Duration {
	w.mu.Lock()
	held := min(max(2*w.held, firstHeld), lastHeld)
	w.held = held
	w.mu.Unlock()
	return w.rest(held)
}

// rest has no mirror written for a time, and returns it.
func (w *MirrorWriter) rest(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heldUntil = time.Now().Add(d)
	return d
}
