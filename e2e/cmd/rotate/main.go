// Command rotate shows that certificates cost no admission (see package rotation), on a
// ground of its own that is removed at the end. Its last line has the figures; the exit
// code is 1 if they are not what is promised.
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
	"github.com/pillion-dev/pillion/e2e/rotation"
)

func main() {
	plan := rotation.Plan{}
	flag.IntVar(&plan.CAs, "cas", 20, "how often the CA is replaced")
	flag.IntVar(&plan.Leaves, "leaves", 100, "how many leaves are served, at least")
	flag.IntVar(&plan.Starts, "starts", 50, "how often all replicas are started together")
	flag.IntVar(&plan.Emptied, "emptied", 20, "how often the caBundles are emptied or replaced")
	flag.IntVar(&plan.Recreated, "recreated", 5, "how often the webhook configuration is recreated")
	flag.IntVar(&plan.Secrets, "secrets", 10, "how often the CA's Secret is deleted or damaged")
	flag.DurationVar(&plan.Limit, "limit", 15*time.Minute, "how long the planned part may take")
	flag.Parse()
	measure.Main("rotate", func(ctx context.Context) error {
		result, err := run(ctx, plan)
		if err != nil {
			return err
		}
		missed := measure.Missed(result.Wrong())
		fmt.Println(result)
		return missed
	})
}

func run(ctx context.Context, plan rotation.Plan) (_ rotation.Result, err error) {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return rotation.Result{}, err
	}
	options := ground.FromEnvironment()
	options.APIServers, options.Lag, options.Balanced = 2, rotation.Lag, true
	g, err := ground.StartControlPlane(ctx, checkout, options, os.Stdout)
	if err != nil {
		return rotation.Result{}, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := ground.Install(ctx, g, checkout, rotation.Values()...); err != nil {
		return rotation.Result{}, err
	}
	if err := g.Scale(ctx, ground.Namespace, rotation.Replicas); err != nil {
		return rotation.Result{}, err
	}
	result, err := rotation.Run(ctx, g, plan, os.Stdout)
	fmt.Printf("in all: %d CAs made, %d of them signed, %d leaves seen\n", result.CAs, result.Signed, result.Leaves)
	return result, err
}
