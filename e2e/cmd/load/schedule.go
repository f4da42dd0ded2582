package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// took is how one request went.
type took struct {
	// latency counts from the moment when the request was due. So a request that waited because
	// those before it were slow counts as slow, too.
	latency time.Duration
	err     error
}

// errLate is of a request that nobody waited for any more when its turn came.
var errLate = errors.New("not sent: it would have timed out before")

// fire calls send rate times a second for lasting, at moments that do not depend on how long
// calls take, with at most clients calls at once. A request that is not sent within timeout fails.
// It returns how each went by its number, when all have returned. When ctx ends, no more are sent.
func fire(ctx context.Context, rate int, lasting, timeout time.Duration, clients int, send func(ctx context.Context, number int) error) []took {
	n := int(lasting.Seconds() * float64(rate))
	results := make([]took, n)
	began := time.Now()
	due := func(number int) time.Time {
		return began.Add(time.Duration(number) * time.Second / time.Duration(rate))
	}
	numbers := make(chan int, n) // the schedule never waits
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for number := range numbers {
				err := errLate
				if time.Since(due(number)) < timeout {
					err = send(ctx, number)
				}
				results[number] = took{time.Since(due(number)), err}
			}
		})
	}
	sent := 0
	for ; sent < n && ctx.Err() == nil; sent++ {
		time.Sleep(time.Until(due(sent)))
		numbers <- sent
	}
	close(numbers)
	all.Wait()
	return results[:sent]
}
