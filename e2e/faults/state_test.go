package faults

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever the changes were, a time is always of at most one value, and always is so of what
// had settled before it began and did not change until it ended.
func TestAHistorySaysWhatWasSoAllTheTime(t *testing.T) {
	t.Parallel()
	second := func(n int) time.Time { return zero.Add(time.Duration(n) * settle) }
	for range 2000 {
		var h History
		var values [40]bool // from each second on
		now := false
		for i := range values {
			if rand.IntN(6) == 0 {
				now = !now
				h.Set(second(i), now)
			}
			values[i] = now
		}
		from := 2 + rand.IntN(30)
		to := from + rand.IntN(8)
		was := map[bool]bool{}
		for i := from - 1; i <= to; i++ { // what changes a second before has settled
			was[values[i]] = true
		}
		for _, value := range []bool{false, true} {
			if got, want := h.Always(value, second(from), second(to)), was[value] && len(was) == 1; got != want {
				t.Fatalf("always %v from %d to %d is %v, want %v; %v", value, from, to, got, want, values)
			}
		}
	}
}
