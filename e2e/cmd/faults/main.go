// Command faults shows what faults cost (see package faults), on a node of its own that is
// removed at the end. It prints a line for each fault, and exits with 1 if one is not as
// docs/concepts/faults.md states.
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
	only := flag.String("only", "", "a regular expression: the faults and changes (change-KIND) that it matches are done; empty for all")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults: -only:", err)
		os.Exit(2)
	}
	measure.Main("faults", func(ctx context.Context) error {
		wrong, err := run(ctx, chosen)
		return cmp.Or(err, measure.Missed(wrong))
	})
}

func run(ctx context.Context, chosen *regexp.Regexp) (wrong []string, err error) {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return nil, err
	}
	options := ground.FromEnvironment()
	options.Measured = true
	options.ProxySync = time.Second // as Kubernetes has it by default
	g, err := ground.StartNode(ctx, checkout, options, os.Stdout)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := ground.Install(ctx, g, checkout, faults.Values...); err != nil {
		return nil, err
	}
	return faults.Run(ctx, g, checkout, chosen, os.Stdout)
}
