// Command day fills a cluster with namespaces and SidecarTemplates, as people make them with kubectl
// apply. The cluster is a ground of its own, which is removed at the end. Command day starts Pillion
// there, and prints the memory of a replica at rest, in MiB:
//
//	IDLE namespaces=<n> templates=<n> rss_mb=<x> heap_mb=<x> target_mb=<x>
//
// Then the cluster lives through a day in a few minutes: pods are made and deleted as the hours have
// it (see [weight]), and two replicas of Pillion inject into them. Where the machine is too slow, the
// day takes longer. Its last line is
//
//	DAY pods=<n> failed=<n> uninjected=<n> rss_first_mb=<x> rss_last_mb=<x> events=<n> audit_per_pod=<x> etcd_bytes_per_pod=<n> p99_ms=<x>
//
// rss_first_mb and rss_last_mb are what a replica has in memory in the first and in the last
// quarter of the day, medians in MiB. It exits with 1 if a bound of the day does not hold, which it
// names. Without pods there is no day, and it exits with 1 if the target of the first line is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// plan is what the cluster and the day have.
type plan struct {
	measure.Filling
	pods int
	day  time.Duration
}

const (
	replicas = 2
	// yesterday is how many pods are made before the day.
	yesterday = 2000
	// What is promised: mostGrowth is how many MiB a replica may have more in the last quarter of
	// the day than in the first, resident and on its heap.
	mostGrowth = 16
	// mostRequests is how many requests of Pillion there may be for each pod. Nothing is asked for a
	// pod itself. Each replica checks its caches every ten seconds, and lists all pods every five
	// minutes, 250 at a time.
	mostRequests = 0.2
	// eventSeries is how long an event stays one with a count, after each time that it is repeated: docs/reference/events.md.
	eventSeries = 6 * time.Minute
)

func main() {
	p := plan{}
	flag.IntVar(&p.Namespaces, "namespaces", 10_000, "how many namespaces there are")
	flag.IntVar(&p.Templates, "templates", 200, "how many SidecarTemplates there are")
	flag.IntVar(&p.pods, "pods", 100_000, "how many pods are made and deleted")
	flag.DurationVar(&p.day, "day", 10*time.Minute, "how long the day takes, where the machine is fast enough")
	flag.Parse()
	measure.Main("day", func(ctx context.Context) error { return run(ctx, p) })
}

func run(ctx context.Context, p plan) (err error) {
	options := ground.FromEnvironment()
	options.Balanced = p.pods > 0
	cluster, err := measure.Start(ctx, options, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	resident, err := atRest(ctx, cluster, p.Filling)
	if err != nil {
		return err
	}
	if p.pods == 0 {
		if resident > target {
			return measure.ErrMissed
		}
		return nil
	}
	if err := cluster.Scale(ctx, ground.Namespace, replicas); err != nil {
		return err
	}
	if err := filled(ctx, cluster, p.Filling); err != nil {
		return err
	}
	// The replicas have the garbage of pods when the day begins, as on every day but the first.
	eve := &load{cluster: cluster, plan: p, due: make([]time.Duration, yesterday)}
	if err := eve.run(ctx); err != nil {
		return err
	}
	before, err := footprintOf(ctx, cluster)
	if err != nil {
		return err
	}
	began := time.Now()
	l := &load{cluster: cluster, plan: p, due: moments(p.pods, p.day)}
	if err := l.run(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("the day took %.1f s\n", took.Seconds())
	after, err := footprintOf(ctx, cluster)
	if err != nil {
		return err
	}
	return report(p, l, took, before, after)
}

// report prints what became of the day, and returns an error if a bound does not hold.
func report(p plan, l *load, took time.Duration, before, after footprint) error {
	var wrong []string
	bound := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	firstRSS, firstHeap := l.quarter(0)
	lastRSS, lastHeap := l.quarter(3)
	bound(l.failed == 0, "%d pods did not become what they should", l.failed)
	bound(l.uninjected == 0, "%d pods have no sidecar", l.uninjected)
	bound(lastRSS <= firstRSS+mostGrowth, "%.1f MiB are resident in the last quarter and %.1f in the first; %d more are allowed", lastRSS, firstRSS, mostGrowth)
	bound(lastHeap <= firstHeap+mostGrowth, "%.1f MiB are on the heap in the last quarter and %.1f in the first; %d more are allowed", lastHeap, firstHeap, mostGrowth)
	events, mistaken := after.events, (p.Namespaces+mistakes-1)/mistakes
	most := replicas * mistaken * (1 + int(took/eventSeries))
	bound(events <= most, "%d events; %d are allowed: one of each replica for each of the %d namespaces with a mistake, in each %s", events, most, mistaken, eventSeries)
	bound(events > 0, "no event tells of the pods that were refused")
	requests := float64(after.requests-before.requests) / float64(p.pods)
	bound(requests <= mostRequests, "%.3f requests of Pillion for each pod; %g are allowed", requests, mostRequests)
	missed := measure.Missed(wrong)
	fmt.Printf("DAY pods=%d failed=%d uninjected=%d rss_first_mb=%.1f rss_last_mb=%.1f events=%d audit_per_pod=%.4f etcd_bytes_per_pod=%.0f p99_ms=%.1f\n",
		len(l.took), l.failed, l.uninjected, firstRSS, lastRSS, events, requests, (after.etcd-before.etcd)/float64(p.pods), measure.Millis(measure.Quantile(l.took, 0.99)))
	return missed
}
