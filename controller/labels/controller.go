package labels

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/reconcile"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// writesPerSecond is how many writes begin in a second, and writers how many run at the same time.
	writesPerSecond = 50
	writers         = 16
	// writeTimeout bounds one. A server-side apply of a namespace with 130,000 labels, which is
	// as many as the API takes, lasts 10 s.
	writeTimeout = 30 * time.Second
	// readyInterval is how often it is looked whether templates and namespaces are read.
	readyInterval = 50 * time.Millisecond
	// settle is how long after a label is not wanted any more it is taken off. An API server that has just
	// started can answer for some seconds that there are no SidecarTemplates.
	settle = 10 * time.Second
	// firstRetry and lastRetry are the pauses after a write that failed.
	firstRetry, lastRetry = time.Second, time.Minute
	// maxFailures is how many writes fail in a row before the namespace is told.
	maxFailures = 3

	// A namespace has a number of writes at once, and one more each minute: somebody may undo them, or replicas
	// may disagree while one version replaces another. A write that takes labels off counts as several, so that
	// in doubt a label is on.
	writesAtOnce, takeOffCost = 6, 3
	writePause                = time.Minute
)

// Options are what [New] needs. All fields are required.
type Options struct {
	Rules Rules
	// Proven reports whether Pillion has proven that it works.
	Proven func() bool
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Namespaces are those in a cache that are not being deleted. Namespace returns one of them, and never a
	// stub. Its error is NotFound if there is none.
	Namespaces func() iter.Seq[Namespace]
	Namespace  func(ctx context.Context, name string) (Namespace, error)
	// Ready returns nil while templates and namespaces are read. While it returns an error, nothing is written.
	Ready func() error
	// PutOn and TakeOff make changes of one namespace, as those of [Writer] do.
	PutOn, TakeOff func(ctx context.Context, ns Namespace, changes []Change) error
	// Held is told of a label that API servers go on refusing: a field manager owns it that is neither Pillion
	// nor, as far as the namespace tells, a hand; or the namespace has no room for it.
	Held   func(namespace, label string, err error)
	Logger *slog.Logger
}

// request is what the loop reconciles: labels to put on in a namespace, or to take off. Without a namespace it stands
// for all.
type request struct {
	namespace string
	off       bool
}

// Controller writes the labels of namespaces. Make one with [New].
type Controller struct {
	options Options
	loop    *reconcile.Loop[request]
	limiter *rate.Limiter
	logged  rate.Sometimes
	// started: all namespaces have been compared, so that one that is new is a change.
	started atomic.Bool

	mu sync.Mutex
	// open has what is to be written, by namespace.
	open map[string]open
	// limiters bound the writes of the namespaces that were written.
	limiters map[string]*rate.Limiter
	// failing: no label can be written at present.
	failing bool
	writes  map[outcome]int
}

// open are changes of a namespace that are not written yet.
type open struct {
	changes []Change
	failed  map[string]bool // by label
}

// outcome is what is counted of writes.
type outcome struct{ label, outcome string }

// New returns a controller that does nothing until [Controller.Run] runs.
func New(o Options) *Controller {
	return &Controller{
		options: o, loop: reconcile.NewLoop[request](firstRetry, lastRetry),
		limiter: rate.NewLimiter(writesPerSecond, writers), logged: rate.Sometimes{First: 10, Interval: 10 * time.Second},
		open: map[string]open{}, limiters: map[string]*rate.Limiter{}, writes: map[outcome]int{},
	}
}

// Changed has all namespaces compared: the set in force is another one. It does not wait.
func (c *Controller) Changed() { c.loop.Add(request{}) }

// NamespaceChanged has a namespace compared that is new, different or gone. It does not wait.
func (c *Controller) NamespaceChanged(name string) {
	if c.started.Load() {
		c.loop.Add(request{namespace: name})
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

func (c *Controller) reconcile(ctx context.Context, r request) (time.Duration, error) {
	switch {
	case !waiting.UntilReady(ctx, readyInterval, c.options.Ready):
		return reconcile.Never, nil
	case r.namespace == "":
		c.all()
		return reconcile.Never, nil
	}
	_, changes, err := c.compare(ctx, r)
	if err != nil || len(changes) == 0 {
		return reconcile.Never, err
	}
	if wait := c.allow(r); wait > 0 {
		return wait, nil
	}
	if c.limiter.Wait(ctx) != nil {
		return reconcile.Never, nil
	}
	ns, changes, err := c.compare(ctx, r)
	if err != nil || len(changes) == 0 {
		return reconcile.Never, err // another replica was faster
	}
	return reconcile.Never, c.write(ctx, r, ns, changes)
}

// all adds the namespaces that have something to write. They come one after the other, so that a namespace that
// changes meanwhile does not wait.
func (c *Controller) all() {
	c.mu.Lock()
	for name, l := range c.limiters {
		if l.Tokens() >= writesAtOnce {
			delete(c.limiters, name)
		}
	}
	c.mu.Unlock()
	n := time.Duration(0)
	for ns := range c.options.Namespaces() {
		if !ns.Stub && len(c.observe(ns)) == 0 {
			continue
		}
		c.loop.AddAfter(request{namespace: ns.Name}, n*time.Second/writesPerSecond)
		n++
	}
}

// observe returns the changes of a namespace, and records that they are open.
func (c *Controller) observe(ns Namespace) []Change {
	changes := c.options.Rules.Changes(c.options.Templates(), c.options.Proven(), ns)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(changes) == 0 {
		delete(c.open, ns.Name)
	} else {
		c.open[ns.Name] = open{changes, c.open[ns.Name].failed}
	}
	return changes
}

// compare returns the changes that a key is for. Labels that are not wanted come again once that has settled.
func (c *Controller) compare(ctx context.Context, r request) (Namespace, []Change, error) {
	ns, err := c.options.Namespace(ctx, r.namespace)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, r.namespace)
		delete(c.limiters, r.namespace)
		return ns, nil, nil
	}
	if err != nil {
		return ns, nil, err
	}
	var changes []Change
	off := false
	for _, change := range c.observe(ns) {
		if off = off || change.TakesOff(); change.TakesOff() == r.off {
			changes = append(changes, change)
		}
	}
	if off && !r.off {
		c.loop.AddAfter(request{r.namespace, true}, settle)
	}
	return ns, changes, nil
}

// allow counts a write of a namespace, or returns how long it has to wait.
func (c *Controller) allow(r request) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.limiters[r.namespace]
	if l == nil {
		l = rate.NewLimiter(rate.Every(writePause), writesAtOnce)
		c.limiters[r.namespace] = l
	}
	cost := 1
	if r.off {
		cost = takeOffCost
	}
	reserved := l.ReserveN(time.Now(), cost)
	wait := reserved.Delay()
	if wait > 0 {
		reserved.Cancel()
	}
	return wait
}

// write makes changes of one namespace. Where somebody holds one of the labels, the others are written alone.
func (c *Controller) write(ctx context.Context, r request, ns Namespace, changes []Change) error {
	err := c.writeOnce(ctx, r, ns, changes)
	if !isHeld(err) || len(changes) == 1 {
		return err
	}
	for _, change := range changes {
		err = errors.Join(err, c.writeOnce(ctx, r, ns, []Change{change}))
	}
	return err
}

func (c *Controller) writeOnce(ctx context.Context, r request, ns Namespace, changes []Change) error {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	write := c.options.PutOn
	if r.off {
		write = c.options.TakeOff
	}
	err := write(limited, ns, changes)
	switch {
	case ctx.Err() != nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err) && !isHeld(err):
		return err // the namespace changed, of which the cache hears soon
	case isHeld(err) && len(changes) > 1:
		return err
	}
	c.record(ns.Name, changes, err)
	if err != nil {
		c.report(r, changes, err)
	}
	return err
}

// record counts the result of a write.
func (c *Controller) record(namespace string, changes []Change, err error) {
	result := "written"
	switch {
	case isHeld(err):
		result = "conflict"
	case err != nil:
		result = "failed"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := open{c.open[namespace].changes, map[string]bool{}}
	for label, failed := range c.open[namespace].failed {
		of.failed[label] = failed
	}
	for _, change := range changes {
		c.writes[outcome{change.Key, result}]++
		of.failed[change.Key] = err != nil
	}
	if _, there := c.open[namespace]; there {
		c.open[namespace] = of
	}
	if err == nil && c.failing {
		c.failing = false
		c.options.Logger.Info("labels of namespaces can be written again")
		c.Changed() // nobody waits for the end of a pause
	}
}

// report logs why a write failed. It tells the namespace if the write goes on failing for a reason that is the
// namespace's own.
func (c *Controller) report(r request, changes []Change, err error) {
	failures := c.loop.Failures(r)
	if why := everybodys(err); why != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.failing {
			c.failing = true
			c.options.Logger.Error("labels of namespaces cannot be written: namespaces that lack their label get no sidecars or are not enforced", "error", why)
		}
		return
	}
	// A conflict may be a hand of which the cache has yet to hear.
	if isHeld(err) && failures < 2 || !isHeld(err) && failures < maxFailures {
		return
	}
	for _, change := range changes {
		c.options.Held(r.namespace, change.Key, err)
		if isHeld(err) || failures == maxFailures {
			c.logged.Do(func() {
				c.options.Logger.Error("writing a label of a namespace failed; it is tried again", "namespace", r.namespace, "label", change.Key, "error", err)
			})
		}
	}
}

// everybodys returns why no namespace can be written, or nothing if the error is about one namespace.
func everybodys(err error) string {
	var answer apierrors.APIStatus
	switch {
	case rights.Lacks(err): // a policy or a webhook refuses one namespace, RBAC all
		return fmt.Sprintf("missing permission: the verb patch on the resource namespaces. The chart grants it with rbac.create=true. "+
			"By hand: kubectl create clusterrole pillion-namespaces --verb=patch --resource=namespaces; "+
			"kubectl create clusterrolebinding pillion-namespaces --clusterrole=pillion-namespaces --serviceaccount=NAMESPACE:ACCOUNT, with the account of this error: %v", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server does not accept Pillion's token: %v; for the cause run: pillion check", err)
	// A write that takes too long may do so for the size of its namespace.
	case !errors.As(err, &answer) && !errors.Is(err, context.DeadlineExceeded):
		return err.Error()
	}
	return ""
}
