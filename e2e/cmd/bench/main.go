// Command bench measures what it costs to create a pod through a real kube-apiserver, on a
// control plane of its own that is removed at the end.
//
//	bench -rounds 1000 -templates 0
//
// One client on one connection creates the same pod by server-side dry run in several
// namespaces, in turns: one that nobody does anything for, and others in which a webhook, a
// MutatingAdmissionPolicy or Pillion is called. So what disturbs the machine disturbs all of
// them alike. The fixed webhooks and the policy add what Pillion's fluent-bit adds, and this is
// checked. So many further templates are in the cluster, and not for these pods. It prints for each case
//
//	BENCH e2e,<name> p50_ms=<x> adds_ms=<what it takes more than nothing> calls=<webhook calls for a pod>
//
// and then what Pillion with fluent-bit adds, divided by what the fixed webhook with the same patch adds:
//
//	BENCH e2e,fluent-bit ratio=<x> target=<y>
//
// It exits with 1 if the ratio is above its target.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// yardstickArgument has this program serve the webhooks that Pillion is compared with.
const yardstickArgument = "yardstick"

func main() {
	if len(os.Args) > 1 && os.Args[1] == yardstickArgument {
		// An interrupt at the terminal is for the process that started this one.
		measure.Main("bench: yardstick", func(context.Context) error { return serveYardstick() })
		return
	}
	rounds := flag.Int("rounds", 1000, "how often a pod is created in each case")
	templates := flag.Int("templates", 0, "how many further templates the cluster has, which are not for these pods")
	flag.Parse()
	measure.Main("bench", func(ctx context.Context) error { return run(ctx, *rounds, *templates) })
}

func run(ctx context.Context, rounds, templates int) (err error) {
	cluster, err := measure.Start(ctx, measure.Timed(), os.Stdout, "--set", "library={"+template+"}", "--set", "excludedNamespaces="+excluded())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := addTemplates(ctx, cluster, templates); err != nil {
		return err
	}
	b, err := newBench(cluster)
	if err != nil {
		return err
	}
	stop, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	defer stop()
	times, err := b.measure(ctx, rounds)
	if err != nil {
		return err
	}
	calls, err := b.count(ctx)
	if err != nil {
		return err
	}
	return report(times, calls)
}

// report prints what was measured, by the names of the cases, and returns an error if the target is missed.
func report(times map[string][]time.Duration, calls map[string]string) error {
	p50 := func(c benchCase) float64 { return measure.Millis(measure.Quantile(times[c.name], 0.5)) }
	adds := func(c benchCase) float64 { return p50(c) - p50(nothing) }
	for _, c := range cases {
		fmt.Printf("BENCH e2e,%s p50_ms=%.2f adds_ms=%.2f calls=%s\n", c.name, p50(c), adds(c), calls[c.name])
	}
	ratio := adds(fluentBit) / adds(fixedRecord)
	fmt.Printf("BENCH e2e,fluent-bit ratio=%.2f target=%.2f\n", ratio, most)
	if ratio <= most {
		return nil
	}
	return measure.ErrMissed
}
