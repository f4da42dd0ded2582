package usage

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

const (
	// readyInterval is how often it is looked whether templates and namespaces are read.
	readyInterval = 20 * time.Millisecond
	// A count of 10,000 namespaces and 1,000 templates takes some 60 ms. The next one waits for share times as
	// long as the last one took, so counting takes two hundredths of a core at most.
	share                  = 50
	leastPause, mostPause  = 100 * time.Millisecond, 30 * time.Second
	mostUnknownInMetrics   = 20
	unknownMetric, inForce = "pillion_unknown_template_namespaces", "pillion_template_namespaces"
)

// Others is the value of the label template for all names that are not told one by one. No template
// can have this name.
const Others = "(others)"

// CounterOptions are what [NewCounter] needs. All fields are required.
type CounterOptions struct {
	Rules Rules
	// Templates returns the set in force, Namespaces those that are known. The maps of one
	// hold until the next one.
	Templates  func() *templates.Set
	Namespaces func() iter.Seq[templates.Namespace]
	// Ready returns nil once both have been read completely.
	Ready func() error
}

// Counter counts again whenever templates or namespaces changed, within a share of the
// processor. Make one with [NewCounter].
type Counter struct {
	options CounterOptions
	wake    waiting.Wake

	latest    atomic.Pointer[Count]
	listeners []func(Count)
}

// Count is the usage of one set of templates.
type Count struct {
	Set *templates.Set
	Usage
}

// NewCounter returns a counter that does nothing until [Counter.Run] runs.
func NewCounter(o CounterOptions) *Counter {
	return &Counter{options: o, wake: waiting.NewWake()}
}

// OnCount calls f with each count. f must return soon. Call it before Run.
func (c *Counter) OnCount(f func(Count)) { c.listeners = append(c.listeners, f) }

// Changed says that templates or namespaces changed. It does not wait.
func (c *Counter) Changed() { c.wake.Wake() }

// Run counts until ctx ends, which is no error.
func (c *Counter) Run(ctx context.Context) error {
	if !waiting.UntilReady(ctx, readyInterval, c.options.Ready) {
		return nil
	}
	c.Changed()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		start := time.Now()
		c.count()
		if !waiting.For(ctx, min(max(share*time.Since(start), leastPause), mostPause)) {
			return nil
		}
	}
}

func (c *Counter) count() {
	set := c.options.Templates()
	count := Count{Set: set, Usage: c.options.Rules.Count(set, c.options.Namespaces())}
	c.latest.Store(&count)
	for _, f := range c.listeners {
		f(count)
	}
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(ch chan<- *prometheus.Desc) {
	ch <- inForceDesc
	ch <- unknownDesc
}

var (
	inForceDesc = prometheus.NewDesc(inForce, "Namespaces in which a template is in force: they name it, ask for it by \"true\", or its match selects them.", []string{"template"}, nil)
	unknownDesc = prometheus.NewDesc(unknownMetric, "Namespaces that name a template that does not exist, so that their pods are refused. The 20 most named templates have their names, the rest are together as (others).", []string{"template"}, nil)
)

// Collect implements prometheus.Collector.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	count := c.latest.Load()
	if count == nil {
		return
	}
	for name, n := range count.In {
		ch <- prometheus.MustNewConstMetric(inForceDesc, prometheus.GaugeValue, float64(n), name)
	}
	worst, rest := show.Worst(count.Unknown, mostUnknownInMetrics)
	for _, name := range worst {
		ch <- prometheus.MustNewConstMetric(unknownDesc, prometheus.GaugeValue, float64(count.Unknown[name]), name)
	}
	ch <- prometheus.MustNewConstMetric(unknownDesc, prometheus.GaugeValue, float64(rest+count.Beyond), Others)
}
