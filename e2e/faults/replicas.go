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
func kill(n int) action {
	return func(ctx context.Context, r *run, _ step) error { return r.signal(syscall.SIGKILL, r.busiest(ctx, n)) }
}

// stop stops the n busiest replicas. The kubelet ends them.
func stop(n int) action {
	return func(ctx context.Context, r *run, _ step) error { return r.signal(syscall.SIGSTOP, r.busiest(ctx, n)) }
}

// busiest are the n replicas that answer most reviews at present: an API server keeps its connections,
// and so a replica may have nothing to do. Replicas that do not tell come last.
func (r *run) busiest(ctx context.Context, n int) []ground.Replica {
	replicas := r.g.Replicas(ground.Namespace)
	if n >= len(replicas) {
		return replicas
	}
	before := answers(ctx, replicas)
	_ = measure.Sleep(ctx, time.Second) // the caller sees when ctx ends
	after := answers(ctx, replicas)
	reviews := func(r ground.Replica) float64 {
		from, told := before[r.Name]
		to, tells := after[r.Name]
		if !told || !tells {
			return -1
		}
		return to - from
	}
	slices.SortStableFunc(replicas, func(a, b ground.Replica) int { return cmp.Compare(reviews(b), reviews(a)) })
	return replicas[:n]
}

// answers is how many reviews each replica has answered, without those that do not tell.
func answers(ctx context.Context, replicas []ground.Replica) map[string]float64 {
	answered := map[string]float64{}
	for _, replica := range replicas {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		n, err := measure.Metric(ctx, replica, "pillion_admission_requests_total")
		cancel()
		if err == nil {
			answered[replica.Name] = n
		}
	}
	return answered
}

func (r *run) signal(signal syscall.Signal, replicas []ground.Replica) error {
	if len(replicas) == 0 {
		return fmt.Errorf("sending %s: no replica runs", signal)
	}
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
