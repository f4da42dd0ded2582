package coverage

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// maxNamespaces is the number of namespaces that the metrics name.
	maxNamespaces = 20
	// firstScan is the least delay of the first scan, which is random up to twice that time:
	// replicas that start together do not scan at the same time.
	firstScan = 2 * time.Second
	// workTime is how long pods are compared without a pause. A pause is three times as long,
	// because reviews need the processor.
	workTime = 5 * time.Millisecond
)

// Options are what [NewCounter] needs. All fields are required.
type Options struct {
	List     List
	Comparer drift.Comparer
	// Namespaces returns the cached namespaces, with stubs of large ones. Namespace returns a whole namespace.
	// If it fails, the scan omits the namespace. Templates returns the set in force.
	Namespaces func() iter.Seq[templates.Namespace]
	Namespace  func(ctx context.Context, name string) (templates.Namespace, error)
	Templates  func() *templates.Set
	// Ready returns nil once both have been read completely.
	Ready func() error
	// Every is the time from one scan to the next. It varies by a tenth.
	Every  time.Duration
	Logger *slog.Logger
}

// scanResult has the counts of one scan.
type scanResult struct {
	at time.Time
	// missing counts, by namespace, the pods that lack a template that they would get now. outdated
	// counts the other pods that have a template in another version or with other parameters.
	missing, outdated map[string]int
	versions          versions
	// tooLarge counts the skipped pods.
	tooLarge int
}

// Counter counts the pods that lack a sidecar. [NewCounter] returns one.
type Counter struct {
	options Options

	mu sync.Mutex
	// last is nil before the first scan, and if Pillion may not list pods.
	last *scanResult
	// forbiddenLogged means that the log says that Pillion may not list pods.
	forbiddenLogged bool
}

// NewCounter returns a counter that does nothing until [Counter.Run] runs.
func NewCounter(o Options) *Counter { return &Counter{options: o} }

// Run scans the pods at the interval Every until ctx ends, which is no error.
func (c *Counter) Run(ctx context.Context) error {
	wait := firstScan + rand.N(firstScan)
	for waiting.For(ctx, wait) {
		wait = c.options.Every*9/10 + rand.N(c.options.Every/5+1)
		if c.options.Ready() != nil {
			wait = firstScan
			continue
		}
		result, err := c.scan(ctx)
		if ctx.Err() != nil {
			break
		}
		c.record(result, err)
	}
	return nil
}

// record stores the result of a scan. After an error, the previous result stays; if the right to
// list pods is missing, record deletes it.
func (c *Counter) record(result *scanResult, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		if c.forbiddenLogged {
			c.options.Logger.Info("pods can be listed again")
		}
		c.last, c.forbiddenLogged = result, false
	case !apierrors.IsForbidden(err):
		c.options.Logger.Warn("counting the pods that lack a sidecar failed; Pillion tries again later", "error", err)
	case !c.forbiddenLogged:
		c.last, c.forbiddenLogged = nil, true
		c.options.Logger.Warn("missing permission: the verb list on the resource pods, in all namespaces. So running pods are not counted. "+
			"The chart grants it, but not with rbac.hardened=true. To do without: coverage.every=0s", "error", err)
	}
}

// scan compares the pods of the namespaces in which API servers call Pillion.
func (c *Counter) scan(ctx context.Context) (*scanResult, error) {
	set := c.options.Templates()
	result := &scanResult{missing: map[string]int{}, outdated: map[string]int{}, versions: newVersions(set)}
	var spent time.Duration
	for _, list := range c.lists() {
		var last string
		var ns templates.Namespace
		var called bool
		tooLarge, err := c.options.List.Each(ctx, list, func(pod map[string]any) error {
			// Pods are sorted by namespace. A scan takes minutes in a large cluster, so each
			// namespace is read when its first pod comes.
			if name, _, _ := unstructured.NestedString(pod, "metadata", "namespace"); name != last {
				last = name
				ns, called = c.namespace(ctx, name)
			}
			if !called {
				return nil
			}
			began := time.Now()
			s, err := c.options.Comparer.Compare(ctx, pod, ns, set)
			if err != nil {
				return err
			}
			result.versions.add(set, pod, s.Templates, began)
			switch {
			case s.Has(drift.Missing):
				result.missing[ns.Name]++
			case s.Has(drift.Outdated):
				result.outdated[ns.Name]++
			}
			if spent += time.Since(began); spent > workTime {
				if !waiting.For(ctx, 3*spent) {
					return ctx.Err()
				}
				spent = 0
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		result.tooLarge += tooLarge
	}
	result.at = time.Now()
	return result, nil
}

// lists returns the namespaces whose pods to list, because API servers call Pillion there. If they
// are the majority, it returns "" for all namespaces, which needs fewer requests.
func (c *Counter) lists() []string {
	var called []string
	all := 0
	for ns := range c.options.Namespaces() {
		all++
		if c.calls(ns) {
			called = append(called, ns.Name)
		}
	}
	if 2*len(called) > all {
		return []string{metav1.NamespaceAll}
	}
	return called
}

// calls reports whether API servers call Pillion for all pods of a namespace. Pods in other
// namespaces that request injection themselves are not counted: to find them costs a list of all pods.
func (c *Counter) calls(ns templates.Namespace) bool {
	return c.options.Comparer.Registration.Calls(ns, nil)
}

// namespace returns a namespace, if API servers call Pillion there.
func (c *Counter) namespace(ctx context.Context, name string) (templates.Namespace, bool) {
	ns, err := c.options.Namespace(ctx, name)
	return ns, err == nil && c.calls(ns)
}
