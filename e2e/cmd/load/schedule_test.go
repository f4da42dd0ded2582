package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// One call holds up everything for a while. Whoever measures from the sending sees one slow
// request; the schedule sees all that were due in the meantime.
func TestARequestThatHadToWaitIsAsSlowAsItWas(t *testing.T) {
	const pause = 300 * time.Millisecond
	results := fire(t.Context(), 100, time.Second, time.Minute, 1, func(_ context.Context, _, number int) error {
		if number == 10 {
			time.Sleep(pause)
		}
		return nil
	})
	if len(results) != 100 {
		t.Fatalf("%d requests, want 100", len(results))
	}
	// Number 20 was due 100 ms after number 10 was, and waited for the rest of the pause.
	if got := results[20].latency; got < pause*2/3 {
		t.Errorf("a request that was due during the pause took %s", got)
	}
	if got := results[20].late; got < pause*2/3 {
		t.Errorf("a request that was due during the pause was sent %s late", got)
	}
	if got := results[10].latency; got < pause {
		t.Errorf("the request that held up the others took %s", got)
	}
}

func TestEveryRequestIsSentOnceByABoundedNumberOfClients(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	var now, most atomic.Int64
	results := fire(t.Context(), 2000, 200*time.Millisecond, time.Minute, 3, func(_ context.Context, client, number int) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		mu.Lock()
		seen[number]++
		mu.Unlock()
		time.Sleep(time.Millisecond)
		if client < 0 || client > 2 {
			t.Errorf("client %d", client)
		}
		if number%10 == 0 {
			return errors.New("every tenth")
		}
		return nil
	})
	failed := 0
	for number, r := range results {
		if seen[number] != 1 {
			t.Errorf("request %d was sent %d times", number, seen[number])
		}
		if r.err != nil {
			failed++
		}
		if r.latency < r.late || r.late < 0 {
			t.Errorf("request %d was sent %s late, and took %s in all", number, r.late, r.latency)
		}
	}
	if len(results) != 400 || failed != 40 || most.Load() > 3 {
		t.Errorf("%d requests, %d failed, %d at once", len(results), failed, most.Load())
	}
}

func TestNothingIsSentAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results := fire(ctx, 1000, time.Hour, time.Minute, 1, func(_ context.Context, _, number int) error {
		if number == 5 {
			cancel()
		}
		return nil
	})
	if len(results) < 6 || len(results) > 3_600_000-1 {
		t.Errorf("%d requests", len(results))
	}
}

func TestWhatWaitsTooLongIsNotSentAndFails(t *testing.T) {
	sent := 0
	results := fire(t.Context(), 100, 200*time.Millisecond, 50*time.Millisecond, 1, func(context.Context, int, int) error {
		sent++
		time.Sleep(500 * time.Millisecond)
		return nil
	})
	if len(results) != 20 || sent != 1 {
		t.Errorf("%d requests, %d sent; want 20, and the first one sent", len(results), sent)
	}
	for number, r := range results {
		if (r.err != nil) != (number > 0) {
			t.Errorf("request %d: %v", number, r.err)
		}
	}
}
