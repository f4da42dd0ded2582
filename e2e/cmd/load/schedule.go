package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A shot is one request of a schedule.
type shot struct {
	number int
	due    time.Time // when it is to be sent, however the ones before it went
}

// took is how long one request took.
type took struct {
	// latency counts from the moment when the request was due. So what had to wait because
	// the ones before it were slow is counted as slow, too.
	latency time.Duration
	// late is how much later than due the request was sent.
	late time.Duration
	err  error
}

// errLate is of a request that nobody waited for any more when its turn came.
var errLate = errors.New("not sent: it would have timed out before")

// fire calls send rate times a second for lasting, at moments that do not depend on how long
// calls take, with at most clients calls at once. What could not be sent within timeout fails. It
// returns what each took by its number, when all have returned. When ctx ends, no more are sent.
func fire(ctx context.Context, rate int, lasting, timeout time.Duration, clients int, send func(ctx context.Context, client, number int) error) []took {
	n := int(lasting.Seconds() * float64(rate))
	results := make([]took, n)
	shots := make(chan shot, n) // the schedule never waits
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for s := range shots {
				sent, err := time.Now(), errLate
				if sent.Sub(s.due) < timeout {
					err = send(ctx, client, s.number)
				}
				results[s.number] = took{latency: time.Since(s.due), late: sent.Sub(s.due), err: err}
			}
		})
	}
	began := time.Now()
	sent := 0
	for ; sent < n && ctx.Err() == nil; sent++ {
		due := began.Add(time.Duration(sent) * time.Second / time.Duration(rate))
		sleepUntil(due)
		shots <- shot{sent, due}
	}
	close(shots)
	all.Wait()
	return results[:sent]
}
