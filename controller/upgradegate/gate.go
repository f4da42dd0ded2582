package upgradegate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// Quiet is how long a question in the record stands where nobody serves.
	Quiet = 30 * time.Second
	// lookEvery is how often a replica that serves reads the record, give or take a fifth, and
	// askEvery how long a replica that is held up waits until it asks again.
	lookEvery, askEvery = 10 * time.Second, 10 * time.Second
	// poll is how often a replica that is held up reads the record.
	poll = time.Second
	// callTimeout bounds a call.
	callTimeout = 5 * time.Second
)

// ConfigMaps reads and writes the ConfigMaps of Pillion's namespace.
type ConfigMaps interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, object *corev1.ConfigMap, o metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// Options are what [New] needs. All fields are required but Allowed and Rules.
type Options struct {
	// ConfigMaps needs the verbs get and update for the one with this Name.
	ConfigMaps ConfigMaps
	Name       string
	// Instance is the name of this replica.
	Instance string
	Rules    usage.Rules
	// Namespaces are those that are known. The maps of one hold until the next one.
	Namespaces func() iter.Seq[templates.Namespace]
	// Allowed are the templates that may be missing.
	Allowed []string
	// Serving returns nil while the replica is ready in every other way.
	Serving func() error
	Logger  *slog.Logger
}

// Gate holds a replica up that would refuse pods, and records the templates in use once it is
// ready. Make one with [New].
type Gate struct {
	options Options
	wake    waiting.Wake
	// had are the templates that this replica had while namespaces named them, and gone those
	// that may leave the record though they are named. Run alone uses them.
	had, gone map[string]bool

	// count is the latest one.
	count atomic.Pointer[usage.Count]

	mu      sync.Mutex
	why     error
	failure string
}

// New returns a gate that is not ready until [Gate.Run] runs.
func New(o Options) *Gate {
	g := &Gate{
		options: o, wake: waiting.NewWake(), had: map[string]bool{}, gone: map[string]bool{},
		why: errors.New("the templates in use have not been looked at yet"),
	}
	for _, name := range o.Allowed {
		g.gone[name] = true
	}
	return g
}

// Counted takes a new count. It does not wait.
func (g *Gate) Counted(count usage.Count) {
	g.count.Store(&count)
	g.wake.Wake()
}

// Ready returns nil once the replica may take over. It never goes back.
func (g *Gate) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

func (g *Gate) set(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = why
}

// Run holds up, and then records, until ctx ends, which is no error.
func (g *Gate) Run(ctx context.Context) error {
	if !g.hold(ctx) {
		return nil
	}
	g.set(nil)
	for g.sleep(ctx, g.record(ctx)) {
	}
	return nil
}

// read gets the record, and notes how that went.
func (g *Gate) read(ctx context.Context) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := g.options.ConfigMaps.Get(ctx, g.options.Name, metav1.GetOptions{})
	if ctx.Err() != context.Canceled {
		g.report("reading", err)
	}
	return m, err
}

// report logs what goes wrong with the record, once.
func (g *Gate) report(doing string, err error) {
	text := ""
	switch {
	case apierrors.IsForbidden(err):
		text = fmt.Sprintf("missing permission: the verbs get and update on the ConfigMap %s: %v", g.options.Name, err)
	case apierrors.IsNotFound(err):
		text = fmt.Sprintf("the ConfigMap %s is gone; restore it with helm upgrade --reset-then-reuse-values: %v", g.options.Name, err)
	case err != nil:
		text = fmt.Sprintf("%s the ConfigMap %s: %v", doing, g.options.Name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if text != "" && text != g.failure {
		g.options.Logger.Error("templates in use cannot be recorded: an upgrade that drops one would not wait", "error", text)
	}
	g.failure = text
}

// hold returns when the replica may be ready, and false if ctx has ended.
func (g *Gate) hold(ctx context.Context) bool {
	var quiet time.Duration // how long nothing has shown that another replica serves
	var asked time.Time     // when this replica asked
	var everRead, unasked bool
	last, question := time.Now(), ""
	for {
		m, err := g.read(ctx)
		passed, count := time.Since(last), g.count.Load()
		last = last.Add(passed)
		switch {
		case ctx.Err() != nil:
			return false
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return true
		case err != nil && everRead:
			quiet = 0 // others cannot answer either
		case err != nil:
			g.set(fmt.Errorf("the templates in use cannot be read: %w", err))
			if quiet += passed; quiet >= Quiet {
				g.options.Logger.Error("the templates in use cannot be read; this replica serves nevertheless", "after", Quiet)
				return true
			}
		case count != nil:
			lacks := g.missing(recorded(m), count)
			if lacks == nil {
				return true
			}
			g.set(lacks)
			asks := m.Data[askedKey]
			if asks == "" && !unasked || asks != question {
				quiet = 0
			} else if quiet += passed; quiet >= Quiet {
				g.options.Logger.Error("this replica serves although templates that namespaces name are missing, because no other replica serves; pods that name them are refused", "missing", lacks)
				for name := range lacks.naming {
					g.gone[name] = true
				}
				return true
			}
			question, everRead = asks, true
			if asks == "" && last.Sub(asked) >= askEvery {
				asked = last
				err := g.write(ctx, m, recorded(m), last.UTC().Format(time.RFC3339Nano)+" "+g.options.Instance)
				if apierrors.IsForbidden(err) {
					return true
				}
				unasked = err != nil && !apierrors.IsConflict(err)
			}
		}
		if !g.sleep(ctx, poll) {
			return false
		}
	}
}

// missing returns what is missing of the templates in use, or nil.
func (g *Gate) missing(names []string, count *usage.Count) *missing {
	names = slices.DeleteFunc(lacking(names, count.Set), func(name string) bool { return g.gone[name] })
	naming := g.options.Rules.Naming(names, g.options.Namespaces())
	if len(naming) == 0 {
		return nil
	}
	return &missing{set: count.Set, naming: naming}
}

// record writes what this replica serves, if the record says something else, and answers a
// question in the record. It returns when to look again.
func (g *Gate) record(ctx context.Context) time.Duration {
	next := lookEvery*4/5 + rand.N(lookEvery*2/5)
	if g.options.Serving() != nil {
		return poll
	}
	m, err := g.read(ctx)
	if err != nil {
		return next
	}
	names := g.next(recorded(m))
	if slices.Equal(names, recorded(m)) && m.Data[askedKey] == "" {
		return next
	}
	if apierrors.IsConflict(g.write(ctx, m, names, "")) {
		return poll // another replica was faster
	}
	return next
}

// write writes the names, and a question unless it is empty. It notes how that went: a conflict
// is no failure.
func (g *Gate) write(ctx context.Context, m *corev1.ConfigMap, names []string, question string) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m = m.DeepCopy()
	m.Data = map[string]string{templatesKey: strings.Join(names, "\n")}
	if question != "" {
		m.Data[askedKey] = question
	}
	_, err := g.options.ConfigMaps.Update(limited, m, metav1.UpdateOptions{FieldManager: "pillion"})
	if ctx.Err() == nil && !apierrors.IsConflict(err) {
		g.report("writing", err)
	}
	return err
}

// next returns what is to be recorded where names are.
func (g *Gate) next(names []string) []string {
	count := g.count.Load()
	if count == nil {
		return names
	}
	mine := inUse(*count)
	for _, name := range mine {
		g.had[name] = true
	}
	lacks := lacking(names, count.Set)
	naming := g.options.Rules.Naming(lacks, g.options.Namespaces())
	next := map[string]bool{}
	for _, name := range mine {
		next[name] = true
	}
	for _, name := range lacks {
		// Another replica may have a template that this one has not seen yet.
		next[name] = len(naming[name]) > 0 && !g.had[name] && !g.gone[name]
	}
	maps.DeleteFunc(next, func(_ string, in bool) bool { return !in })
	return slices.Sorted(maps.Keys(next))
}

// sleep waits for a time, and a new count ends the wait, but not within a second. It returns
// false if ctx has ended.
func (g *Gate) sleep(ctx context.Context, d time.Duration) bool {
	if g.Ready() == nil {
		if !waiting.For(ctx, poll) {
			return false
		}
		d -= poll
	}
	return waiting.Until(ctx, d, g.wake)
}

var failingDesc = prometheus.NewDesc("pillion_in_use_record_failing", "1 while the templates in use cannot be recorded, so that an upgrade that drops one would not wait; the log says why.", nil, nil)

// Describe implements prometheus.Collector.
func (g *Gate) Describe(ch chan<- *prometheus.Desc) { ch <- failingDesc }

// Collect implements prometheus.Collector.
func (g *Gate) Collect(ch chan<- prometheus.Metric) {
	g.mu.Lock()
	failing := 0.0
	if g.failure != "" {
		failing = 1
	}
	g.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, failing)
}
