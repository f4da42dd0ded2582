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
	// mostNamespaces is how many namespaces the metrics name.
	mostNamespaces = 20
	// firstLook is how long the first look waits at least, and twice that at most: replicas
	// that start together do not look at the same time, and have other things to do first.
	firstLook = 2 * time.Second
	// stint is how long pods are compared without a pause, and pauses are three times as
	// long: reviews come first.
	stint = 5 * time.Millisecond
)

// Options are what [NewCounter] needs. All fields are required.
type Options struct {
	List     List
	Comparer drift.Comparer
	// Namespaces are those of the cache, stubs of large ones among them. Namespace returns one whole. Where it
	// returns an error, a look goes without the namespace. Templates returns the set in force.
	Namespaces func() iter.Seq[templates.Namespace]
	Namespace  func(ctx context.Context, name string) (templates.Namespace, error)
	Templates  func() *templates.Set
	// Ready returns nil once both have been read completely.
	Ready func() error
	// Every is the time from one look to the next. It varies by a tenth.
	Every  time.Duration
	Logger *slog.Logger
}

// look is what one look found.
type look struct {
	at time.Time
	// missing has the pods that lack a template that they would get now, by namespace, where there
	// are any. Outdated has those that lack none, and have one in another version or with other
	// parameters.
	missing, outdated map[string]int
	versions          versions
	// tooLarge are the pods that were not looked at.
	tooLarge int
}

// Counter counts the pods that lack a sidecar. Make one with [NewCounter].
type Counter struct {
	options Options

	mu   sync.Mutex
	last *look // nil before the first look, and where pods may not be listed
	said bool  // that they may not be listed
}

// NewCounter returns a counter that does nothing until [Counter.Run] runs.
func NewCounter(o Options) *Counter { return &Counter{options: o} }

// Run looks at the pods again and again until ctx ends, which is no error.
func (c *Counter) Run(ctx context.Context) error {
	wait := firstLook + rand.N(firstLook)
	for waiting.For(ctx, wait) {
		wait = c.options.Every*9/10 + rand.N(c.options.Every/5+1)
		if c.options.Ready() != nil {
			wait = firstLook
			continue
		}
		found, err := c.look(ctx)
		if ctx.Err() != nil {
			break
		}
		c.note(found, err)
	}
	return nil
}

// note keeps the result of a look. Where a look fails, the result of the one before stays, with
// its time; where the right is missing, there is none.
func (c *Counter) note(found *look, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		if c.said {
			c.options.Logger.Info("pods can be listed again")
		}
		c.last, c.said = found, false
	case !apierrors.IsForbidden(err):
		c.options.Logger.Warn("counting the pods that lack a sidecar failed; Pillion tries again later", "error", err)
	case !c.said:
		c.last, c.said = nil, true
		c.options.Logger.Warn("missing permission: the verb list on the resource pods, in all namespaces. So running pods are not counted. "+
			"The chart grants it with coverage.enabled=true and rbac.create=true, and not with rbac.hardened=true. To do without: coverage.enabled=false", "error", err)
	}
}

// look looks at the pods of the namespaces in which API servers call Pillion.
func (c *Counter) look(ctx context.Context) (*look, error) {
	set := c.options.Templates()
	found := &look{missing: map[string]int{}, outdated: map[string]int{}, versions: newVersions(set)}
	var spent time.Duration
	for _, list := range c.lists() {
		var last string
		var ns templates.Namespace
		var called bool
		tooLarge, err := c.options.List.Each(ctx, list, func(pod map[string]any) error {
			// Pods come by namespace. A look takes minutes in a large cluster: each namespace is
			// taken as it is when its turn comes.
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
			found.versions.add(set, pod, s.Templates, began)
			switch {
			case s.Has(drift.Missing):
				found.missing[ns.Name]++
			case s.Has(drift.Outdated):
				found.outdated[ns.Name]++
			}
			if spent += time.Since(began); spent > stint {
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
		found.tooLarge += tooLarge
	}
	found.at = time.Now()
	return found, nil
}

// lists returns the namespaces whose pods to list: those in which API servers call Pillion. If they
// are most, it returns "" for all: a page of pods is one request, whatever namespaces they are in.
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

// calls reports whether API servers call Pillion in a namespace. A pod that itself asks elsewhere is
// the business of the one who wrote it: to find such pods costs a read of all.
func (c *Counter) calls(ns templates.Namespace) bool {
	return c.options.Comparer.Registration.Calls(ns, nil)
}

// namespace returns a namespace, if API servers call Pillion there.
func (c *Counter) namespace(ctx context.Context, name string) (templates.Namespace, bool) {
	ns, err := c.options.Namespace(ctx, name)
	return ns, err == nil && c.calls(ns)
}
