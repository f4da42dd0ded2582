// Command rotate shows that certificates cost no admission (see package rotation), on a
// ground of its own that is removed at the end. Its last line has the figures; the exit
// code is 1 if they are not what is promised.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
	"github.com/pillion-dev/pillion/e2e/rotation"
)

// plan is done by `make rotate`.
var plan = rotation.Plan{CAs: 20, Leaves: 100, Starts: 50, Emptied: 20, Recreated: 5, Secrets: 10, Limit: 15 * time.Minute}

func main() {
	measure.Main("rotate", func(ctx context.Context) error {
		result, err := run(ctx)
		if err != nil {
			return err
		}
		missed := measure.Missed(result.Wrong())
		fmt.Println(result)
		return missed
	})
}

func run(ctx context.Context) (_ rotation.Result, err error) {
	options := ground.FromEnvironment()
	options.APIServers, options.Lag, options.Balanced = 2, rotation.Lag, true
	g, err := measure.Start(ctx, options, os.Stdout, rotation.Values()...)
	if err != nil {
		return rotation.Result{}, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.Scale(ctx, ground.Namespace, rotation.Replicas); err != nil {
		return rotation.Result{}, err
	}
	result, err := rotation.Run(ctx, g.ControlPlane, plan, os.Stdout)
	fmt.Printf("in all: %d CAs made, %d of them signed, %d leaves seen\n", result.CAs, result.Signed, result.Leaves)
	return result, err
}
