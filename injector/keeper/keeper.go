package keeper

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/clientset/waiting"
	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// writesPerSecond is how many writes begin in a second, and writers how many run at the
	// same time.
	writesPerSecond = 50
	writers         = 16
	// writeTimeout bounds one. A server-side apply of a namespace with 130,000 labels, which is
	// as many as the API takes, lasts 10 s.
	writeTimeout = 30 * time.Second
	// readyInterval is how often it is looked whether templates and namespaces are read.
	readyInterval = 50 * time.Millisecond
	// permissionPause is how long all writes wait where the right to write is missing, and
	// connectionPause where the API server does not answer.
	permissionPause = 30 * time.Second
	connectionPause = time.Second
)

// Namespaces are the namespaces in a cache that are not being deleted. The maps of one that
// All yields hold until the next one.
type Namespaces interface {
	All() iter.Seq[kept.Namespace]
	Cached(name string) (kept.Namespace, bool)
}

// Options are what [New] needs. All fields are required.
type Options struct {
	Labels kept.Labels
	// Templates returns the set in force.
	Templates  func() *templates.Set
	Namespaces Namespaces
	// Ready returns nil while templates and namespaces are as the API server has them. While
	// it returns an error, nothing is written.
	Ready func() error
	// Write makes the changes of one namespace in one write. The error is the API's; a
	// conflict says that the namespace is another by now, or that somebody else owns a label.
	Write func(ctx context.Context, ns kept.Namespace, changes []kept.Change) error
	// Held is told of a label of which API servers go on refusing the write for the same reason:
	// a field manager owns it that is neither Pillion nor, as far as the namespace tells,
	// somebody's hand; or the namespace has no room for it.
	Held func(namespace, label string, err error)
	// MayPatch reports whether the process has the right to do so.
	MayPatch func(ctx context.Context) (bool, error)
	Logger   *slog.Logger
}

// Keeper writes the labels of namespaces. Make one with [New].
type Keeper struct {
	options Options
	limiter *rate.Limiter
	slots   chan struct{}
	wake    chan struct{}
	logged  rate.Sometimes

	mu sync.Mutex
	// all and changed say which namespaces have to be looked at.
	all     bool
	changed map[string]bool
	tasks   *tasks
	// problem is why no label can be written at present. Until pausedUntil nothing is
	// written, and then one label as a try.
	problem     pause
	pausedUntil time.Time
	writes      map[outcome]int
}

// outcome is what is counted of writes.
type outcome struct{ label, outcome string }

// New returns a keeper that does nothing until [Keeper.Run] runs.
func New(o Options) *Keeper {
	return &Keeper{
		options: o, limiter: rate.NewLimiter(writesPerSecond, writers), slots: make(chan struct{}, writers), wake: make(chan struct{}, 1),
		logged: rate.Sometimes{First: 10, Interval: 10 * time.Second}, changed: map[string]bool{}, tasks: newTasks(), writes: map[outcome]int{},
	}
}

// Changed says that what labels are decided by changed for all namespaces, such as the set in
// force. It does not wait.
func (k *Keeper) Changed() {
	k.mu.Lock()
	k.all = true
	k.mu.Unlock()
	k.signal()
}

// NamespaceChanged says that a namespace is new, different or gone. It does not wait.
func (k *Keeper) NamespaceChanged(name string) {
	k.mu.Lock()
	k.changed[name] = true
	k.mu.Unlock()
	k.signal()
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run keeps the labels until ctx ends, which is no error.
func (k *Keeper) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for first := true; ; first = false {
		if !waiting.UntilReady(ctx, readyInterval, k.options.Ready) {
			return nil
		}
		if first {
			k.mu.Lock()
			k.all, k.changed = true, map[string]bool{} // to be new to the cache is not urgent
			k.mu.Unlock()
		}
		k.look()
		due, next := k.due()
		for _, of := range due {
			if !k.begin(ctx) {
				return nil
			}
			running.Go(func() {
				defer k.end()
				k.write(ctx, of)
			})
		}
		if len(due) == 0 && !waiting.Until(ctx, next, k.wake) {
			return nil
		}
	}
}

// begin waits until one more write may begin. It returns false if ctx ends first.
func (k *Keeper) begin(ctx context.Context) bool {
	if k.limiter.Wait(ctx) != nil {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case k.slots <- struct{}{}:
		return true
	}
}

func (k *Keeper) end() {
	<-k.slots
	k.signal()
}

// look finds out which labels of the namespaces that changed have to be written.
func (k *Keeper) look() {
	k.mu.Lock()
	all, changed := k.all, k.changed
	k.all, k.changed = false, map[string]bool{}
	k.mu.Unlock()
	if !all && len(changed) == 0 {
		return
	}
	judgement, keys := k.options.Labels.By(k.options.Templates()), k.options.Labels.Keys()
	found := map[string][]kept.Change{}
	// What is not known of a namespace is being read: then it has changed. Until then there is
	// nothing to write.
	judge := func(ns kept.Namespace) {
		if judgement.Knows(ns) {
			found[ns.Name] = judgement.Differences(ns)
		}
	}
	if all {
		for ns := range k.options.Namespaces.All() {
			judge(ns)
		}
	} else {
		for name := range changed {
			if ns, ok := k.options.Namespaces.Cached(name); ok {
				judge(ns)
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for name, changes := range found {
		k.tasks.set(name, keys, changes, changed[name], now)
	}
	k.tasks.forget(func(name string) bool {
		_, there := found[name]
		return !there && (all || changed[name])
	})
}

// due returns the labels to write now, those of a namespace together, and how long there are
// none after that.
func (k *Keeper) due() (due [][]task, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if wait := k.pausedUntil.Sub(now); wait > 0 {
		return nil, wait
	}
	most := writers
	if k.problem != (pause{}) {
		if most = 1; len(k.slots) > 0 {
			return nil, idle // the end of the try wakes the loop
		}
	}
	return k.tasks.due(now, most)
}

// write sends the changes of one namespace, and takes note of the result.
func (k *Keeper) write(ctx context.Context, due []task) {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	name := due[0].place.namespace
	ns, ok := k.options.Namespaces.Cached(name)
	var err error = apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	if ok {
		changes := make([]kept.Change, len(due))
		for i, t := range due {
			changes[i] = t.change
		}
		err = k.options.Write(limited, ns, changes)
	}
	if ctx.Err() != nil {
		return
	}
	all := k.reason(limited, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if err == nil && k.problem != (pause{}) {
		k.options.Logger.Info("labels of namespaces can be written again")
		k.problem, k.pausedUntil = pause{}, time.Time{}
	}
	for _, t := range due {
		k.note(t, err, all.of > 0, now)
	}
	if all.of > 0 {
		k.pause(all, now)
	}
}

// note takes note of the result of one change. Known reports whether the error is everybody's,
// which is told elsewhere.
func (k *Keeper) note(t task, err error, known bool, now time.Time) {
	at, result := t.place, "failed"
	switch {
	case err == nil:
		k.tasks.written(at, t.change, now)
		k.writes[outcome{at.label, "written"}]++
		k.options.Logger.Debug("wrote a label", "namespace", at.namespace, "label", at.label, "value", t.change.Value)
		return
	case apierrors.IsNotFound(err):
		k.tasks.drop(at)
		return
	case apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		// The namespace changed, of which the cache hears soon.
		k.tasks.again(at, now)
		return
	case apierrors.IsConflict(err):
		result = "conflict"
	}
	k.writes[outcome{at.label, result}]++
	// At first a conflict may be a hand of which the cache has yet to hear.
	again, often := k.tasks.failed(at, t.change, err.Error(), now)
	conflict := result == "conflict"
	if again && !known && (conflict || often) {
		k.options.Held(at.namespace, at.label, err)
	}
	if !known && again == conflict {
		k.logged.Do(func() {
			k.options.Logger.Error("writing a label of a namespace failed; it is tried again", "namespace", at.namespace, "label", at.label, "error", err)
		})
	}
}

// pause is how long all writes wait for a reason that is not one namespace's. Zero is none.
type pause struct {
	of  time.Duration
	why string
}

// reason returns the pause after a write. It is empty if the error is about one namespace.
func (k *Keeper) reason(ctx context.Context, err error) pause {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		// A policy or a webhook refuses one namespace, RBAC all.
		if may, unknown := k.options.MayPatch(ctx); unknown == nil && !may {
			return pause{permissionPause, fmt.Sprintf("missing permission: the verb patch on the resource namespaces. The chart grants it with rbac.create=true. "+
				"By hand: kubectl create clusterrole pillion-namespaces --verb=patch --resource=namespaces; "+
				"kubectl create clusterrolebinding pillion-namespaces --clusterrole=pillion-namespaces --serviceaccount=NAMESPACE:ACCOUNT, with the account of this error: %v", err)}
		}
	// A write that takes too long may do so for the size of its namespace.
	case !errors.As(err, &answer) && !errors.Is(err, context.DeadlineExceeded):
		return pause{connectionPause, err.Error()}
	}
	return pause{}
}

// pause stops all writes for a while, and says why if that is new.
func (k *Keeper) pause(p pause, now time.Time) {
	if k.problem.of != p.of {
		counts := k.tasks.counts()
		for _, label := range k.options.Labels.Keys() {
			k.options.Logger.Error("labels of namespaces cannot be written: what they ask for is not done in the namespaces that lack them",
				"label", label, "lacking", counts[label].lacking, "error", p.why)
		}
	}
	k.problem, k.pausedUntil = p, now.Add(p.of)
}
