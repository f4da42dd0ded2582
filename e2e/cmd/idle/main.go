// Command idle shows what Pillion takes of memory while it does nothing, on a ground of its
// own that is removed at the end: a cluster with many namespaces and SidecarTemplates, as
// people make them with kubectl apply. Its last line is
//
//	IDLE namespaces=<n> templates=<n> rss_mb=<x> heap_mb=<x> target_mb=<x>
//
// in MiB. It exits with 1 if the resident memory is above the target.
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

const (
	// settle is how long after it became ready Pillion is measured.
	settle = time.Minute
	// target is how many MiB of resident memory are allowed.
	target = 160.0
)

func main() {
	p := measure.Filling{}
	flag.IntVar(&p.Namespaces, "namespaces", 10_000, "how many namespaces there are")
	flag.IntVar(&p.Templates, "templates", 100, "how many SidecarTemplates there are")
	flag.Parse()
	measure.Main("idle", func(ctx context.Context) error {
		resident, heap, err := run(ctx, p)
		if err != nil {
			return err
		}
		fmt.Printf("IDLE namespaces=%d templates=%d rss_mb=%.1f heap_mb=%.1f target_mb=%g\n", p.Namespaces, p.Templates, resident, heap, target)
		if resident > target {
			return measure.ErrMissed
		}
		return nil
	})
}

// run fills a cluster while no Pillion runs, starts one, and measures it. It returns what is
// resident and what the program has on its heap, garbage included, in MiB.
func run(ctx context.Context, p measure.Filling) (resident, heap float64, err error) {
	g, err := measure.Start(ctx, ground.FromEnvironment(), os.Stdout)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.Scale(ctx, ground.Namespace, 0); err != nil {
		return 0, 0, err
	}
	if err := g.Fill(ctx, p, os.Stdout); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := g.Scale(ctx, ground.Namespace, 1); err != nil {
		return 0, 0, err
	}
	replica, err := g.Pillion()
	if err != nil {
		return 0, 0, err
	}
	fmt.Printf("ready %.1f s after its start\n", time.Since(began).Seconds())
	// A template that is not in force takes no memory.
	if got, err := measure.Metric(ctx, replica, "pillion_template_info"); err != nil || int(got) != p.Templates {
		return 0, 0, fmt.Errorf("%v templates are in force (%w), want %d; the replica's log is %s", got, err, p.Templates, replica.Log)
	}
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(settle):
	}
	heap, err = measure.Metric(ctx, replica, "go_memstats_heap_alloc_bytes")
	if err != nil {
		return 0, 0, err
	}
	u, err := measure.UsageOf(replica.PID)
	if err != nil {
		return 0, 0, err
	}
	const mib = 1 << 20
	fmt.Printf("%s later: resident %.1f MiB (of it %.1f of the binary's file), at its peak %.1f, %.1f s of CPU\n",
		settle, float64(u.Resident)/mib, float64(u.File)/mib, float64(u.Peak)/mib, u.CPU)
	return float64(u.Resident) / mib, heap / mib, nil
}
