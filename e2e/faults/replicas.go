package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// How many replicas a fault is done to.
const (
	one  = 1
	most = 100 // more than ever run
)

// kill ends the n busiest replicas. The kubelet starts them again.
func kill(n int) step {
	return func(ctx context.Context, r *run, _ Step) error { return r.signal(syscall.SIGKILL, r.busiest(ctx, n)) }
}

// stop stops the n busiest replicas. The kubelet ends them.
func stop(n int) step {
	return func(ctx context.Context, r *run, _ Step) error { return r.signal(syscall.SIGSTOP, r.busiest(ctx, n)) }
}

// busiest are the n replicas that answer most reviews at present: an API server keeps its connections,
// and so a replica may have nothing to do.
func (r *run) busiest(ctx context.Context, n int) []ground.Replica {
	replicas := r.g.Replicas(ground.Namespace)
	if n >= len(replicas) {
		return replicas
	}
	answered := map[string]float64{}
	count := func(sign float64) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, replica := range replicas {
			// A replica that hangs answers nothing, and counts as idle.
			n, _ := measure.Metric(ctx, replica, "pillion_admission_requests_total")
			answered[replica.Name] += sign * n
		}
	}
	count(-1)
	_ = measure.Sleep(ctx, time.Second) // it is repeated by whatever comes next
	count(1)
	slices.SortStableFunc(replicas, func(a, b ground.Replica) int { return cmp.Compare(answered[b.Name], answered[a.Name]) })
	return replicas[:n]
}

func (r *run) signal(signal syscall.Signal, replicas []ground.Replica) error {
	for _, replica := range replicas {
		if replica.PID == 0 {
			return fmt.Errorf("sending %s to %s: its process is not known", signal, replica.Name)
		}
		if err := syscall.Kill(replica.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) { // another fault may have ended it
			return fmt.Errorf("sending %s to %s: %w", signal, replica.Name, err)
		}
	}
	return nil
}
