package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// busiest are the replicas that run, those that answer most reviews at present first: an API
// server keeps its connections, and so a replica may have nothing to do.
func (r *run) busiest(ctx context.Context) ([]ground.Replica, error) {
	replicas := r.g.Replicas(ground.Namespace)
	if len(replicas) < 2 {
		return nil, fmt.Errorf("%d replicas run, want 2", len(replicas))
	}
	answered := map[string]float64{}
	for _, sign := range []float64{-1, 1} {
		for _, replica := range replicas {
			n, err := answers(ctx, replica)
			if err != nil {
				return nil, err
			}
			answered[replica.Name] += sign * n
		}
		if sign < 0 {
			if err := measure.Sleep(ctx, time.Second); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(replicas, func(a, b ground.Replica) int { return cmp.Compare(answered[b.Name], answered[a.Name]) })
	return replicas, nil
}

// answers is how many reviews the replica has answered.
func answers(ctx context.Context, replica ground.Replica) (float64, error) {
	return measure.Metric(ctx, replica, "pillion_admission_requests_total")
}
