// Command load sends admission reviews to Pillion at a fixed rate, as API servers would, on a
// control plane of its own that is removed at the end.
//
//	load -for 60s -rate 1000
//
// Pillion is the binary that `make build` makes, as the chart runs it, on one CPU with
// GOMAXPROCS=1. This process and the control plane run on the others, if there are any. The
// reviews are 200, of 2 to 60 KB, the same every time, and sent over TLS on a few connections
// that are kept. When a review is due does not depend on the answers before it, and its latency
// counts from then. An answer that is not the same as the first one to that review has failed.
// Before Pillion, a webhook that decodes the typed pod with encoding/json and has the same
// patches ready gets the same load, and a line YARDSTICK like the last one, which is
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
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == yardstickArgument {
		if err := serveYardstick(); err != nil {
			fmt.Fprintln(os.Stderr, "load, serving the yardstick:", err)
			os.Exit(1)
		}
		return
	}
	rate := flag.Int("rate", 1000, "how many reviews are sent in a second")
	lasting := flag.Duration("for", time.Minute, "how long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	missed, err := run(ctx, *rate, *lasting)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
	}
	if err != nil || missed {
		os.Exit(1)
	}
}

// generatorThreads is how many threads of this process may run Go code. On one CPU they take
// turns as the kernel has it: a review that is due does not wait for one that is being read.
const generatorThreads = 4

func run(ctx context.Context, rate int, lasting time.Duration) (missed bool, err error) {
	if rate < 1 || lasting < time.Second {
		return false, fmt.Errorf("-rate %d -for %s; at least one review a second and a second are needed", rate, lasting)
	}
	reviews, err := corpus()
	if err != nil {
		return false, fmt.Errorf("making the reviews: %w", err)
	}
	cluster, err := measure.Start(ctx, os.Stdout, "--set", "library={"+strings.Join(templates(), ",")+"}")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := prepare(ctx, cluster); err != nil {
		return false, err
	}
	url, transport, err := cluster.Reviews(ctx)
	if err != nil {
		return false, err
	}
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = connections, connections
	defer transport.CloseIdleConnections()
	c := &client{url: url, http: &http.Client{Transport: transport, Timeout: timeout}}
	if err := c.learn(ctx, reviews); err != nil {
		return false, err
	}
	replica, err := cluster.Pillion()
	if err != nil {
		return false, err
	}
	cpus, shared, err := divide()
	if err != nil {
		return false, err
	}
	if shared {
		fmt.Println("there is one CPU only: Pillion shares it with all else")
	}
	runtime.GOMAXPROCS(generatorThreads)
	y, err := startYardstick(ctx, c)
	if err != nil {
		return false, err
	}
	defer y.stop()
	if err := cpus.pin(y.cmd.Process.Pid); err != nil {
		return false, err
	}
	simple, err := y.client.load(ctx, y.cmd.Process.Pid, rate, lasting)
	if err != nil {
		return false, err
	}
	fmt.Println(simple.line("YARDSTICK"))
	if err := cpus.pin(replica.PID); err != nil {
		return false, err
	}
	r, err := c.load(ctx, replica.PID, rate, lasting)
	if err != nil {
		return false, err
	}
	fmt.Print(r)
	return r.missed(), nil
}

// prepare has Pillion run on one thread at a time, and makes the namespaces.
func prepare(ctx context.Context, cluster *measure.Cluster) error {
	_, err := ground.Run(ctx, cluster, "kubectl", "-n", ground.Namespace, "set", "env", "deployment/"+ground.Release, "GOMAXPROCS=1")
	if err != nil {
		return err
	}
	if err := cluster.Rollout(ctx, ground.Namespace); err != nil {
		return err
	}
	made := map[string]bool{}
	for _, g := range groups {
		if made[g.namespace] {
			continue
		}
		made[g.namespace] = true
		if err := cluster.MakeNamespace(ctx, g.namespace, g.asks); err != nil {
			return err
		}
	}
	return nil
}
