// Command load sends admission reviews to Pillion at a fixed rate, as API servers would, on a
// control plane of its own that is removed at the end.
//
//	load -for 60s
//
// Pillion is the binary that `make build` makes, as the chart runs it, on one CPU with
// GOMAXPROCS=1. This process and the control plane run on the others, if there are any. The
// reviews are 200, of 4 to 60 KB, and sent over TLS on a few connections that are kept. When a
// review is due does not depend on the answers before it, and its latency counts from then. An
// answer that is not the same as the first one to that review has failed. The last line is
//
//	LOAD rate=<n> tried=<n> failed=<n> p50_ms=<x> p99_ms=<x> max_ms=<x> rss_mb=<peak resident> cpu=<share of a core>
//
// It exits with 1 if a review failed, if p99 is above 5 ms, or if more than 128 MiB were resident
// at any time since Pillion's start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// rate is how many reviews are sent in a second.
const rate = 1000

// The targets.
const (
	mostP99    = 5 * time.Millisecond
	mostMemory = 128 << 20
)

// connections is how many a kube-apiserver keeps to a webhook. Here there are never more, so a
// review may have to wait for one, which counts.
const connections = 25

func main() {
	lasting := flag.Duration("for", time.Minute, "how long")
	flag.Parse()
	measure.Main("load", func(ctx context.Context) error { return run(ctx, *lasting) })
}

func run(ctx context.Context, lasting time.Duration) (err error) {
	// All that this process starts runs on the CPUs that it may use itself.
	last := runtime.NumCPU() - 1
	if last > 0 {
		if err := pin(ctx, os.Getpid(), fmt.Sprintf("0-%d", last-1)); err != nil {
			return err
		}
	}
	cluster, err := measure.Start(ctx, measure.Timed(), os.Stdout, "--set", "library="+library)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if _, err := ground.Run(ctx, cluster, "kubectl", "-n", ground.Namespace, "set", "env", "deployment/"+ground.Release, "GOMAXPROCS=1"); err != nil {
		return err
	}
	if err := cluster.Rollout(ctx, ground.Namespace); err != nil {
		return err
	}
	replica, err := cluster.Pillion()
	if err != nil {
		return err
	}
	if err := pin(ctx, replica.PID, strconv.Itoa(last)); err != nil {
		return err
	}
	reviewer, err := measure.NewReviewer(ctx, cluster.Client, replica, timeout)
	if err != nil {
		return err
	}
	reviewer.Transport.MaxConnsPerHost, reviewer.Transport.MaxIdleConnsPerHost = connections, connections
	defer reviewer.Transport.CloseIdleConnections()

	c := &client{Reviewer: reviewer}
	if c.reviews, err = makeReviews(ctx, cluster); err != nil {
		return err
	}
	if err := c.learn(ctx); err != nil {
		return err
	}
	before, err := measure.UsageOf(replica.PID)
	if err != nil {
		return err
	}
	began := time.Now()
	results := fire(ctx, rate, lasting, timeout, connections, c.repeat)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, err := measure.UsageOf(replica.PID)
	if err != nil {
		return err
	}
	cpu := (after.CPU - before.CPU) / time.Since(began).Seconds()
	return report(results, after.Peak, cpu)
}

// pin keeps every thread of a process, and the processes that it starts from now on, to CPUs.
func pin(ctx context.Context, pid int, cpus string) error {
	if said, err := exec.CommandContext(ctx, "taskset", "--all-tasks", "--cpu-list", "--pid", cpus, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		return fmt.Errorf("keeping process %d to the CPUs %s: %w: %s", pid, cpus, err, said)
	}
	return nil
}

// report prints what was measured, and returns an error if a target is missed.
func report(results []took, peak uint64, cpu float64) error {
	var latencies []time.Duration
	failed := 0
	for i, t := range results {
		latencies = append(latencies, t.latency)
		if t.err == nil {
			continue
		}
		if failed++; failed <= 5 {
			fmt.Printf("failed: request %d: %v\n", i, t.err)
		}
	}
	p99 := measure.Quantile(latencies, 0.99)
	fmt.Printf("LOAD rate=%d tried=%d failed=%d p50_ms=%.2f p99_ms=%.2f max_ms=%.2f rss_mb=%.0f cpu=%.2f\n", rate, len(results), failed,
		measure.Millis(measure.Quantile(latencies, 0.5)), measure.Millis(p99), measure.Millis(measure.Quantile(latencies, 1)), float64(peak)/(1<<20), cpu)
	if len(results) == 0 || failed > 0 || p99 > mostP99 || peak > mostMemory {
		return measure.ErrMissed
	}
	return nil
}
