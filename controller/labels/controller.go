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
	// writesPerSecond bounds the writes that begin in a second, and writers the concurrent writes.
	writesPerSecond = 50
	writers         = 16
	// writeTimeout bounds a write. A server-side apply of a namespace with 130,000 labels, the most that the
	// API accepts, lasts 10 s.
	writeTimeout = 30 * time.Second
	// readyInterval is the pause between two checks of Options.Ready.
	readyInterval = 50 * time.Millisecond
	// settleTime is how long a label must be unwanted before it is removed. An API server that has just started
	// can answer for some seconds that there are no SidecarTemplates.
	settleTime = 10 * time.Second
	// firstRetry and lastRetry are the pauses after a failed write.
	firstRetry, lastRetry = time.Second, time.Minute
	// maxFailures is the number of consecutive failures before the namespace gets an event.
	maxFailures = 3

	// A namespace has writesAtOnce writes, and one more each minute: another client may undo them, or replicas
	// may disagree during an upgrade. A write that removes labels counts as takeOffCost writes, so that Pillion
	// stops removing labels first.
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
	// Namespaces returns the cached namespaces that are not being deleted. Namespace returns one of them, and
	// never a stub. Its error is NotFound if the cache does not have it.
	Namespaces func() iter.Seq[Namespace]
	Namespace  func(ctx context.Context, name string) (Namespace, error)
	// Ready returns nil once templates and namespaces have been read. While it returns an error, nothing is written.
	Ready func() error
	// PutOn and TakeOff make changes of one namespace, as the methods of [Writer] do.
	PutOn, TakeOff func(ctx context.Context, ns Namespace, changes []Change) error
	// ReportFailure is called for a label whose write API servers refuse repeatedly: another field manager owns
	// it although the managed fields in the cache do not show that, or the namespace is full.
	ReportFailure func(namespace, label string, err error)
	Logger        *slog.Logger
}

// request is the key of the loop: labels to set in a namespace, or to remove if off is true. An empty namespace means
// all namespaces.
type request struct {
	namespace string
	off       bool
}

// Controller writes the labels of namespaces. [New] returns one.
type Controller struct {
	options Options
	loop    *reconcile.Loop[request]
	limiter *rate.Limiter
	logged  rate.Sometimes
	// started means that all namespaces have been queued, so that later calls of NamespaceChanged count.
	started atomic.Bool

	mu sync.Mutex
	// pending has the changes that are not written yet, by namespace.
	pending map[string]pendingChanges
	// limiters bound the writes of each namespace.
	limiters map[string]*rate.Limiter
	// failing means that no label can be written at present.
	failing bool
	writes  map[writeResult]int
}

// pendingChanges are changes of a namespace that are not written yet.
type pendingChanges struct {
	changes []Change
	failed  map[string]bool // by label
}

// writeResult has the label values of the metric of writes.
type writeResult struct{ label, outcome string }

// New returns a controller that does nothing until [Controller.Run] runs.
func New(o Options) *Controller {
	return &Controller{
		options: o, loop: reconcile.NewLoop[request](firstRetry, lastRetry),
		limiter: rate.NewLimiter(writesPerSecond, writers), logged: rate.Sometimes{First: 10, Interval: 10 * time.Second},
		pending: map[string]pendingChanges{}, limiters: map[string]*rate.Limiter{}, writes: map[writeResult]int{},
	}
}

// Changed queues all namespaces. Call it after the set in force has changed. It does not wait.
func (c *Controller) Changed() { c.loop.Add(request{}) }

// NamespaceChanged queues a namespace that is new, different or gone. It does not wait.
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
		c.addAll()
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

// addAll queues the namespaces with changes, spread over time, so that a namespace that changes meanwhile does not
// wait behind them.
func (c *Controller) addAll() {
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

// observe returns the changes of a namespace, and records them as pending.
func (c *Controller) observe(ns Namespace) []Change {
	changes := c.options.Rules.Changes(c.options.Templates(), c.options.Proven(), ns)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(changes) == 0 {
		delete(c.pending, ns.Name)
	} else {
		c.pending[ns.Name] = pendingChanges{changes, c.pending[ns.Name].failed}
	}
	return changes
}

// compare returns the changes of a request. If labels have to be removed, it queues a request for that after
// settleTime.
func (c *Controller) compare(ctx context.Context, r request) (Namespace, []Change, error) {
	ns, err := c.options.Namespace(ctx, r.namespace)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, r.namespace)
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
		c.loop.AddAfter(request{r.namespace, true}, settleTime)
	}
	return ns, changes, nil
}

// allow counts a write of a namespace and returns 0, or returns how long the write has to wait.
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

// write makes changes of one namespace. If another manager owns one of the labels, it writes each label alone.
func (c *Controller) write(ctx context.Context, r request, ns Namespace, changes []Change) error {
	err := c.writeOnce(ctx, r, ns, changes)
	if !isOwnerConflict(err) || len(changes) == 1 {
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
	case apierrors.IsConflict(err) && !isOwnerConflict(err):
		return err // the namespace changed, and the cache gets the new version soon
	case isOwnerConflict(err) && len(changes) > 1:
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
	case isOwnerConflict(err):
		result = "conflict"
	case err != nil:
		result = "failed"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := pendingChanges{c.pending[namespace].changes, map[string]bool{}}
	for label, failed := range c.pending[namespace].failed {
		of.failed[label] = failed
	}
	for _, change := range changes {
		c.writes[writeResult{change.Key, result}]++
		of.failed[change.Key] = err != nil
	}
	if _, there := c.pending[namespace]; there {
		c.pending[namespace] = of
	}
	if err == nil && c.failing {
		c.failing = false
		c.options.Logger.Info("labels of namespaces can be written again")
		c.Changed() // retry all namespaces now
	}
}

// report logs why a write failed. It calls ReportFailure if the write fails repeatedly for a reason that is the
// namespace's own.
func (c *Controller) report(r request, changes []Change, err error) {
	failures := c.loop.Failures(r)
	if why := clusterWideCause(err); why != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.failing {
			c.failing = true
			c.options.Logger.Error("labels of namespaces cannot be written: namespaces that lack their label get no sidecars or are not enforced", "error", why)
		}
		return
	}
	// The cache may not have the new owner yet after a first conflict.
	if isOwnerConflict(err) && failures < 2 || !isOwnerConflict(err) && failures < maxFailures {
		return
	}
	for _, change := range changes {
		c.options.ReportFailure(r.namespace, change.Key, err)
		if isOwnerConflict(err) || failures == maxFailures {
			c.logged.Do(func() {
				c.options.Logger.Error("writing a label of a namespace failed; it is tried again", "namespace", r.namespace, "label", change.Key, "error", err)
			})
		}
	}
}

// clusterWideCause returns the reason why no namespace can be written, or "" if the error is about one namespace.
func clusterWideCause(err error) string {
	var answer apierrors.APIStatus
	switch {
	case rights.IsMissing(err): // RBAC refuses all namespaces; a policy or a webhook may refuse one
		return fmt.Sprintf("missing permission: the verb patch on the resource namespaces. The chart grants it. "+
			"By hand: kubectl create clusterrole pillion-namespaces --verb=patch --resource=namespaces; "+
			"kubectl create clusterrolebinding pillion-namespaces --clusterrole=pillion-namespaces --serviceaccount=NAMESPACE:ACCOUNT, with the account of this error: %v", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server does not accept Pillion's token: %v; for the cause run: pillion check", err)
	// A deadline may be due to the size of one namespace.
	case !errors.As(err, &answer) && !errors.Is(err, context.DeadlineExceeded):
		return err.Error()
	}
	return ""
}
