package faults

import (
	"context"
	"errors"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// SoakReplicas is how many replicas a soak has: the chart's default.
const SoakReplicas = 2

// mostRounds is more than there is time for.
const mostRounds = 10_000

// A Plan is what a soak does.
type Plan struct {
	Seed uint64
	For  time.Duration
	// Clocks is a directory with ahead/pillion-webhook and behind/pillion-webhook, whose clocks are an hour off.
	Clocks string
	// Only chooses among the faults by their names, before the seed does.
	Only *regexp.Regexp
}

// Soak does the plan to a ground that is Balanced and has Pillion, and writes a line of figures to out.
// Missed is how many pods no fault explains, and how many things are left at the end that were not
// there at the beginning. The error is about the run itself.
func Soak(ctx context.Context, g *measure.Cluster, plan Plan, out io.Writer) (missed int, err error) {
	chosen, err := choose(soakFaults, plan.Only)
	if err != nil {
		return 0, err
	}
	// Thirty pods a second in four namespaces.
	r, err := newRun(g.ControlPlane, g.Checkout, everything(), &load{pace: time.Second * 4 / 30, earnest: 4}, out)
	if err != nil {
		return 0, err
	}
	r.plane, r.clocks = g.ControlPlane, plan.Clocks
	var c counts
	var end snapshot
	var left []string
	err = r.underLoad(ctx, func(ctx context.Context) error {
		before, err := r.snapshot(ctx)
		if err != nil {
			return err
		}
		kubelet, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { g.Kubelet(kubelet, ground.Namespace) })
		began := time.Now()
		for _, steps := range schedule(plan.Seed, mostRounds, chosen) {
			more, err := r.round(ctx, steps)
			c.add(more)
			if err == nil {
				err = r.clear(ctx, steps)
			}
			if err != nil {
				return err
			}
			r.say("%s: %d faults, %d pods tried, %d not created, %d bare, %d wrong", time.Now().Format(clock), len(r.log.faults), c.all(), c.refusals, c.of[bare], c.of[wrong])
			if time.Since(began) > plan.For {
				break
			}
		}
		end, left, err = r.left(ctx, before)
		return err
	})
	more, countErr := r.count(ctx)
	c.add(more)
	for _, l := range left {
		r.say("LEFT %s", l)
	}
	quantile := func(q float64) int64 { return measure.Quantile(c.times, q).Milliseconds() }
	r.say("SOAK seed=%d faults=%d tried=%d admitted=%d refused=%d wrong=%d p50_ms=%d p99_ms=%d max_ms=%d rss_mb=%.0f goroutines=%.0f left=%d",
		plan.Seed, len(r.log.faults), c.all(), c.all()-c.refusals, c.refusals, c.of[wrong], quantile(0.5), quantile(0.99), quantile(1), end.usage[memory]/(1<<20), end.usage[goroutines], len(left))
	return c.of[wrong] + len(left), errors.Join(err, countErr)
}
