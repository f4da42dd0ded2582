package faults

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
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
			if err := sleep(ctx, time.Second); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(replicas, func(a, b ground.Replica) int { return cmp.Compare(answered[b.Name], answered[a.Name]) })
	return replicas, nil
}

// answers is how many reviews the replica has answered.
func answers(ctx context.Context, replica ground.Replica) (float64, error) {
	return metric(ctx, replica, "pillion_admission_requests_total{")
}

// metric adds the values of the replica's metrics whose lines begin with name.
func metric(ctx context.Context, replica ground.Replica, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+replica.Admin.String()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return sum(response.Body, name)
}

// sum adds the values of the lines of metrics that begin with name.
func sum(metrics io.Reader, name string) (total float64, err error) {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndex(rest, " ")+1:], &value); err != nil {
			return 0, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		total += value
	}
	return total, lines.Err()
}
