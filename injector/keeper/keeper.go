package keeper

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	// writeTimeout bounds one.
	writeTimeout = 5 * time.Second
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
	// Ready returns nil once templates and namespaces have been read completely.
	Ready func() error
	// Write makes one change. The error is the API's; a conflict says that somebody else owns
	// a label that is applied.
	Write func(ctx context.Context, namespace string, change kept.Change) error
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
	if !waiting.UntilReady(ctx, readyInterval, k.options.Ready) {
		return nil
	}
	k.mu.Lock()
	k.all, k.changed = true, map[string]bool{} // to be new to the cache is not urgent
	k.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		k.look()
		due, next := k.due()
		for _, d := range due {
			if !k.begin(ctx) {
				return nil
			}
			running.Go(func() {
				defer k.end()
				k.write(ctx, d.place, d.change)
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
	if all {
		for ns := range k.options.Namespaces.All() {
			found[ns.Name] = judgement.Differences(ns)
		}
	} else {
		for name := range changed {
			if ns, ok := k.options.Namespaces.Cached(name); ok {
				found[name] = judgement.Differences(ns)
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

// due returns the labels to write now, and how long there are none after that.
func (k *Keeper) due() (due []task, next time.Duration) {
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

// write sends one change, and takes note of the result.
func (k *Keeper) write(ctx context.Context, at place, change kept.Change) {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := k.options.Write(limited, at.namespace, change)
	if ctx.Err() != nil {
		return
	}
	all := k.reason(limited, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		if k.problem != (pause{}) {
			k.options.Logger.Info("labels of namespaces can be written again")
		}
		k.problem, k.pausedUntil = pause{}, time.Time{}
		k.tasks.written(at, change, now)
		k.writes[outcome{at.label, "written"}]++
		k.options.Logger.Debug("wrote a label", "namespace", at.namespace, "label", at.label, "value", change.Value)
	case apierrors.IsNotFound(err):
		k.tasks.drop(at)
	case change.Applied && apierrors.IsConflict(err):
		// Somebody set it by hand, of which the cache hears soon.
		k.tasks.drop(at)
		k.writes[outcome{at.label, "left"}]++
	default:
		k.writes[outcome{at.label, "failed"}]++
		again := k.tasks.failed(at, change, err.Error(), now)
		if all.of > 0 {
			k.pause(all, now)
		} else if !again {
			k.logged.Do(func() {
				k.options.Logger.Error("writing a label of a namespace failed; it is tried again", "namespace", at.namespace, "label", at.label, "error", err)
			})
		}
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
	case !errors.As(err, &answer):
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
