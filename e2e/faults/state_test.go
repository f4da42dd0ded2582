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

// A command returns some time after the API server has taken the change.
func TestWhileACommandChangesSomethingItIsNeither(t *testing.T) {
	t.Parallel()
	var h History
	second := func(n int) time.Time { return zero.Add(time.Duration(n) * settle) }
	h.Change(second(10), second(12), true)
	for at, want := range map[int][2]bool{9: {true, false}, 10: {}, 11: {}, 12: {}, 13: {false, true}} {
		if got := [2]bool{h.Always(false, second(at), second(at)), h.Always(true, second(at), second(at))}; got != want {
			t.Errorf("at second %d it is always false and always true: %v, want %v", at, got, want)
		}
	}
}

func TestANamespaceFailsClosedByItsLabelAndTheEntry(t *testing.T) {
	t.Parallel()
	s := newState()
	s.labelled["shop"] = &History{}
	s.labelled["shop"].Set(zero, true)
	s.entry.Set(zero, true)
	s.entry.Set(zero.Add(10*settle), false) // the configuration is deleted
	for at, want := range map[int]bool{0: false, 2: true, 8: true, 10: false, 12: false} {
		from := zero.Add(time.Duration(at) * settle)
		if got := s.closed("shop", from, from.Add(settle/2)); got != want {
			t.Errorf("after %d s it fails closed: %v, want %v", at, got, want)
		}
		if s.closed("elsewhere", from, from) {
			t.Error("a namespace without the label fails closed")
		}
	}
}
