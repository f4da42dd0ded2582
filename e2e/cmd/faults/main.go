// Command faults shows what faults cost (see package faults), on a Kubernetes of its own that is removed
// at the end: one after another, several at once (-soak), or those of certificates (-rotate). It exits
// with 1 if a pod is wrong, or if a soak leaves something behind.
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

	"github.com/pillion-dev/pillion/e2e/faults"
	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

func main() {
	var plan faults.Plan
	rotates := flag.Bool("rotate", false, "replace and damage certificates")
	flag.DurationVar(&plan.For, "soak", 0, "how long faults are done at random, at least; 0 does one after another")
	flag.Uint64Var(&plan.Seed, "seed", 1, "in a soak, the same seed does the same faults in the same order")
	flag.StringVar(&plan.Clocks, "clocks", "", "in a soak, a directory with ahead/pillion-webhook and behind/pillion-webhook, whose clocks are an hour off; empty: the fault clock-off fails")
	only := flag.String("only", "", "a regular expression: faults whose names it matches are done, but for -rotate; empty for all")
	flag.Parse()
	var err error
	if plan.Only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, "faults: -only:", err)
		os.Exit(2)
	}
	measure.Main("faults", func(ctx context.Context) error {
		switch {
		case *rotates:
			return rotate(ctx)
		case plan.For > 0:
			return soak(ctx, plan)
		}
		return each(ctx, plan.Only)
	})
}

func each(ctx context.Context, only *regexp.Regexp) (err error) {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return err
	}
	options := measure.Timed()
	options.ProxySync = time.Second // as Kubernetes has it by default
	g, err := ground.StartNode(ctx, checkout, options, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := ground.Install(ctx, g, checkout, faults.Values()...); err != nil {
		return err
	}
	wrong, err := faults.Each(ctx, g, checkout, only, os.Stdout)
	return cmp.Or(err, measure.Missed(wrong))
}

// balanced starts a control plane whose replicas all get connections.
func balanced(ctx context.Context, options ground.Options, replicas int, values []string) (*measure.Cluster, error) {
	options.Balanced = true
	g, err := measure.Start(ctx, options, os.Stdout, append(values, "--set", fmt.Sprint("replicas=", replicas))...)
	if err == nil {
		err = g.Scale(ctx, ground.Namespace, replicas)
	}
	if err != nil && g != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, err
}

func soak(ctx context.Context, plan faults.Plan) (err error) {
	options := ground.FromEnvironment()
	options.APIServers = cmp.Or(options.APIServers, 3)
	g, err := balanced(ctx, options, faults.SoakReplicas, faults.Values())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	missed, err := faults.Soak(ctx, g, plan, os.Stdout)
	if err == nil && missed > 0 {
		err = measure.ErrMissed
	}
	return err
}

func rotate(ctx context.Context) (err error) {
	options := ground.FromEnvironment()
	options.APIServers, options.Lag = 2, faults.RotationLag
	g, err := balanced(ctx, options, faults.RotationReplicas, faults.RotationValues())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	result, err := faults.Rotate(ctx, g, os.Stdout)
	if err != nil {
		return err
	}
	fmt.Printf("in all: %d CAs made, %d of them signed, %d leaves seen\n", result.CAs, result.Signed, result.Leaves)
	missed := measure.Missed(result.Wrong())
	fmt.Println(result)
	return missed
}
