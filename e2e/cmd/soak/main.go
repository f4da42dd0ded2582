// Command soak does faults at random under load (see package soak), on a ground of its own that is
// removed at the end. Its last line has the figures; the exit code is 1 if a pod is wrong, or
// something is left at the end.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
	"github.com/pillion-dev/pillion/e2e/soak"
)

func main() {
	var plan soak.Plan
	flag.Uint64Var(&plan.Seed, "seed", 1, "the same seed does the same faults in the same order")
	flag.DurationVar(&plan.For, "for", 10*time.Minute, "how long faults are done, at least")
	flag.StringVar(&plan.Clocks, "clocks", "", "a directory with ahead/pillion-webhook and behind/pillion-webhook, whose clocks are an hour off; empty: the fault clock-off fails")
	only := flag.String("only", "", "a regular expression: faults whose names it matches are done; empty for all")
	flag.Parse()
	var err error
	if plan.Only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, "soak: -only:", err)
		os.Exit(2)
	}
	measure.Main("soak", func(ctx context.Context) error {
		result, err := run(ctx, plan)
		fmt.Println(result)
		if err == nil && result.Wrong+result.Left > 0 {
			err = measure.ErrMissed
		}
		return err
	})
}

func run(ctx context.Context, plan soak.Plan) (_ soak.Result, err error) {
	options := ground.FromEnvironment()
	options.Balanced, options.APIServers = true, cmp.Or(options.APIServers, 3)
	g, err := measure.Start(ctx, options, os.Stdout, "--set", "enforcement=Asked", "--set", fmt.Sprint("replicas=", soak.Replicas))
	if err != nil {
		return soak.Result{}, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.Scale(ctx, ground.Namespace, soak.Replicas); err != nil {
		return soak.Result{}, err
	}
	return soak.Run(ctx, g, plan, os.Stdout)
}
