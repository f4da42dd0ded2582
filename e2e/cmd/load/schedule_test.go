package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// One call holds up everything for a while. Whoever measures from the sending sees one slow
// request; the schedule sees all that were due in the meantime.
func TestARequestThatHadToWaitIsAsSlowAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 300 * time.Millisecond
		sent := map[int]int{}
		results := fire(t.Context(), 100, time.Second, 200*time.Millisecond, 1, func(_ context.Context, number int) error {
			sent[number]++
			if number == 10 {
				time.Sleep(pause)
			}
			return nil
		})
		if len(results) != 100 || results[10].latency != pause {
			t.Fatalf("%d requests, the slow one took %s; want 100 and %s", len(results), results[10].latency, pause)
		}
		for number, r := range results {
			// Requests from number 11 on were due during the pause, the first ones too long ago.
			late := number > 10 && number <= 20
			want := max(0, pause-time.Duration(number-10)*10*time.Millisecond)
			if number < 10 {
				want = 0
			}
			if r.latency != want || (r.err != nil) != late || sent[number] == 0 != late {
				t.Errorf("request %d took %s and was sent %d times (%v), want %s", number, r.latency, sent[number], r.err, want)
			}
		}
	})
}
