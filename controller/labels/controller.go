package labels

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/reconcile"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/waiting"
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
	// everything is the item of the queue that stands for all namespaces.
	everything = ""
)

// Options are what [New] needs. All fields are required.
type Options struct {
	Rules Rules
	// Proven reports whether Pillion has proven that it works.
	Proven func() bool
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Namespaces are those in a cache that are not being deleted. The maps of one hold until the
	// next one. Namespace returns one of them.
	Namespaces func() iter.Seq[Namespace]
	Namespace  func(name string) (Namespace, bool)
	// Ready returns nil while templates and namespaces are as the API server has them. While
	// it returns an error, nothing is written.
	Ready func() error
	// Write makes the changes of one namespace in one write. The error is the API's; a
	// conflict says that the namespace is another by now, or that somebody else owns a label.
	Write func(ctx context.Context, ns Namespace, changes []Change) error
	// Held is told of a label of which API servers go on refusing the write for the same reason:
	// a field manager owns it that is neither Pillion nor, as far as the namespace tells,
	// somebody's hand; or the namespace has no room for it.
	Held   func(namespace, label string, err error)
	Logger *slog.Logger
}

// Controller writes the labels of namespaces. Make one with [New].
type Controller struct {
	options Options
	loop    *reconcile.Loop
	order   *order
	limiter *rate.Limiter
	logged  rate.Sometimes
	// started: all namespaces have been looked at, so that one that is new is a change.
	started atomic.Bool

	mu    sync.Mutex
	tasks tasks
	// problem is why no label can be written at present. Until pausedUntil nothing is
	// written, and then one namespace as a try.
	problem     pause
	pausedUntil time.Time
	writes      map[outcome]int
}

// outcome is what is counted of writes.
type outcome struct{ label, outcome string }

// New returns a controller that does nothing until [Controller.Run] runs.
func New(o Options) *Controller {
	order := newOrder()
	return &Controller{
		options: o, order: order, loop: reconcile.NewLoop(order),
		limiter: rate.NewLimiter(writesPerSecond, writers), logged: rate.Sometimes{First: 10, Interval: 10 * time.Second},
		tasks: tasks{}, writes: map[outcome]int{},
	}
}

// Changed says that what labels are decided by changed for all namespaces, such as the set in
// force. It does not wait.
func (c *Controller) Changed() {
	c.order.put(everything, urgent)
	c.loop.Add(everything)
}

// NamespaceChanged says that a namespace is new, different or gone. It does not wait.
func (c *Controller) NamespaceChanged(name string) {
	if c.started.Load() {
		c.order.put(name, urgent)
		c.loop.Add(name)
	}
}

// Run writes labels until ctx ends, which is no error.
func (c *Controller) Run(ctx context.Context) error {
	if waiting.UntilReady(ctx, readyInterval, c.options.Ready) {
		c.started.Store(true)
		c.Changed()
	}
	c.loop.Run(ctx, writers, c.reconcile)
	return nil
}

func (c *Controller) reconcile(ctx context.Context, name string) time.Duration {
	changed := c.order.take(name)
	switch {
	case !waiting.UntilReady(ctx, readyInterval, c.options.Ready):
		return reconcile.Never
	case name == everything:
		c.all()
		return reconcile.Never
	}
	return c.namespace(ctx, name, changed)
}

// all finds the namespaces that have something to write.
func (c *Controller) all() {
	there := map[string]bool{}
	var open []string
	for ns := range c.options.Namespaces() {
		there[ns.Name] = true
		if c.look(ns, false).next >= 0 {
			open = append(open, ns.Name)
		}
	}
	c.mu.Lock()
	maps.DeleteFunc(c.tasks, func(at place, _ *task) bool { return !there[at.namespace] })
	c.mu.Unlock()
	for _, name := range open {
		c.loop.Add(name)
	}
}

// namespace writes the labels of one namespace that are due, and returns when to look again.
func (c *Controller) namespace(ctx context.Context, name string, changed bool) time.Duration {
	found := c.lookUp(name, changed)
	if len(found.due) > 0 {
		if wait := c.paused(); wait > 0 {
			return wait
		}
		if c.limiter.Wait(ctx) != nil {
			return reconcile.Never
		}
		// Meanwhile another replica may have been faster.
		if found = c.lookUp(name, false); len(found.due) > 0 {
			c.write(ctx, found.Namespace, found.due)
			found = c.lookUp(name, false)
		}
	}
	if found.next >= 0 {
		c.order.put(name, found.rank)
	}
	return found.next
}

// found is what there is to write of a namespace.
type found struct {
	Namespace
	due []Change
	// next is how long nothing to do, [reconcile.Never] for good.
	next time.Duration
	rank rank
}

// lookUp is look for a namespace of the cache.
func (c *Controller) lookUp(name string, changed bool) found {
	ns, ok := c.options.Namespace(name)
	if ok {
		return c.look(ns, changed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.options.Rules.Keys() {
		delete(c.tasks, place{name, key})
	}
	return found{next: reconcile.Never}
}

// look compares a namespace with what it should be. It finds nothing to do where the namespace is
// not known: it is being read, and then it has changed.
func (c *Controller) look(ns Namespace, changed bool) found {
	set := c.options.Templates()
	if !Knows(set, ns) {
		return found{next: reconcile.Never}
	}
	changes, keys := c.options.Rules.Changes(set, c.options.Proven(), ns), c.options.Rules.Keys()
	f := found{Namespace: ns, rank: usual}
	if !slices.ContainsFunc(changes, func(c Change) bool { return !c.TakesOff() }) {
		f.rank = takesOff
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.tasks.found(ns.Name, keys, changes, changed, now)
	f.due, f.next = c.tasks.due(ns.Name, keys, now)
	return f
}

// paused returns how long nothing may be written. Where writes fail for all namespaces, the write
// after the pause is a try: all others wait for the next pause.
func (c *Controller) paused() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if wait := c.pausedUntil.Sub(now); wait > 0 {
		return wait
	}
	if c.problem.length > 0 {
		c.pausedUntil = now.Add(c.problem.length)
	}
	return 0
}

// write sends changes of one namespace, and takes note of the result.
func (c *Controller) write(ctx context.Context, ns Namespace, changes []Change) {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.options.Write(limited, ns, changes)
	if ctx.Err() != nil {
		return
	}
	everybodys := everybodys(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err == nil && c.problem != (pause{}) {
		c.options.Logger.Info("labels of namespaces can be written again")
		c.problem, c.pausedUntil = pause{}, time.Time{}
		c.Changed() // nobody waits for the end of the pause
	}
	for _, change := range changes {
		c.note(ns.Name, change, err, everybodys.length > 0, now)
	}
	if everybodys.length > 0 {
		c.pause(everybodys, now)
	}
}

// note takes note of the result of one change. Known reports whether the error is everybody's,
// which is told elsewhere.
func (c *Controller) note(namespace string, change Change, err error, known bool, now time.Time) {
	at, result := place{namespace, change.Key}, "failed"
	t := c.tasks[at]
	if t == nil || t.change != change {
		t = &task{} // by now something else is to be written, or nothing
	}
	switch {
	case err == nil:
		t.written(now)
		c.writes[outcome{at.label, "written"}]++
		c.options.Logger.Debug("wrote a label", "namespace", at.namespace, "label", at.label, "value", change.Value)
		return
	case apierrors.IsNotFound(err):
		delete(c.tasks, at)
		return
	case apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		// The namespace changed, of which the cache hears soon.
		t.after = now.Add(firstRetry)
		return
	case apierrors.IsConflict(err):
		result = "conflict"
	}
	c.writes[outcome{at.label, result}]++
	// At first a conflict may be a hand of which the cache has yet to hear.
	again, often := t.failed(err.Error(), now)
	conflict := result == "conflict"
	if again && !known && (conflict || often) {
		c.options.Held(at.namespace, at.label, err)
	}
	if !known && again == conflict {
		c.logged.Do(func() {
			c.options.Logger.Error("writing a label of a namespace failed; it is tried again", "namespace", at.namespace, "label", at.label, "error", err)
		})
	}
}

// pause is how long all writes wait for a reason that is not one namespace's. Zero is none.
type pause struct {
	length time.Duration
	why    string
}

// everybodys returns the pause after a write. It is empty if the error is about one namespace.
func everybodys(err error) pause {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
	case rights.Lacks(err): // a policy or a webhook refuses one namespace, RBAC all
		return pause{permissionPause, fmt.Sprintf("missing permission: the verb patch on the resource namespaces. The chart grants it with rbac.create=true. "+
			"By hand: kubectl create clusterrole pillion-namespaces --verb=patch --resource=namespaces; "+
			"kubectl create clusterrolebinding pillion-namespaces --clusterrole=pillion-namespaces --serviceaccount=NAMESPACE:ACCOUNT, with the account of this error: %v", err)}
	// A write that takes too long may do so for the size of its namespace.
	case !errors.As(err, &answer) && !errors.Is(err, context.DeadlineExceeded):
		return pause{connectionPause, err.Error()}
	}
	return pause{}
}

// pause stops all writes for a while, and says why if that is new.
func (c *Controller) pause(p pause, now time.Time) {
	if c.problem.length != p.length {
		counts := c.tasks.counts()
		for _, label := range c.options.Rules.Keys() {
			c.options.Logger.Error("labels of namespaces cannot be written: namespaces that lack their label get no sidecars or are not enforced",
				"label", label, "lacking", counts[label].lacking, "error", p.why)
		}
	}
	c.problem, c.pausedUntil = p, now.Add(p.length)
}
