package faults

import (
	"math/rand/v2"
	"testing"
	"time"
)

var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

// sent is a pod that was sent so many seconds after zero and took 10 ms.
func sent(kind namespaceKind, seconds float64, a attempt) attempt {
	a.kind, a.namespace = kind, string(kind)
	a.began = at(seconds)
	a.ended = a.began.Add(10 * time.Millisecond)
	return a
}

func with(template, version string) attempt {
	return attempt{sidecars: map[string]string{template: version}}
}

// both is a kind of namespaces that ask for two sidecars.
const both namespaceKind = "both"

// someLog has a namespace of each kind; version 1 of both templates until second 40, version 2 of
// one of them from then on, which is suspended from second 170 to 180; a fault from second 100 to 110
// that overlaps with one to second 120; and from second 200 to 210 entries that are edited.
func someLog() *log {
	l := &log{
		wants: map[namespaceKind][]string{enabled: {askedTemplate}, enforced: {askedTemplate}, selected: {selectingTemplate}, both: {askedTemplate, librarySidecar}},
		versions: map[string][]version{
			askedTemplate: {
				{"1", at(0), at(0)}, {"2", at(40), at(41)}, {"3", at(150), time.Time{}}, {"4", at(160), at(161)}, {"", at(170), at(171)}, {"5", at(180), at(181)},
			},
			selectingTemplate: {{"1", at(0), at(0)}},
			librarySidecar:    {{name: libraryVersion}},
		},
		closed: map[string]*history{string(enforced): {}, string(selected): {}},
		faults: []occurrence{
			{effect: effect{window{refused: 5 * time.Second, bare: 5 * time.Second}, nil, 2 * time.Second, never}, began: at(100), ended: at(110)},
			{effect: effect{window{refused: never, bare: never}, ofThoseThatAsk(time.Second), never, time.Second}, began: at(109), ended: at(120)},
			{effect: effect{window{refused: time.Second, bare: time.Second}, nil, never, never}, began: at(200), ended: at(210)},
			{effect: effect{window{refused: time.Second, bare: never}, nil, never, never}, began: at(300)},
		},
	}
	l.closed[string(enforced)].set(at(-10), true)
	l.closed[string(selected)].set(at(-10), true)
	l.closed[string(selected)].set(at(105), false)
	l.edited.set(at(200), true)
	l.edited.set(at(210), false)
	return l
}

func TestTheLogSaysWhatMayBecomeOfAPod(t *testing.T) {
	t.Parallel()
	unanswered, denied, quota, none := attempt{unanswered: "no answer"}, attempt{denial: "denied"}, attempt{elsewhere: "quota"}, attempt{}
	for _, c := range []struct {
		what string
		a    attempt
		want verdict
	}{
		{"untouched where nobody asked", sent(neverAsked, 105, none), good},
		{"changed where nobody asked", sent(neverAsked, 105, with(askedTemplate, "1")), wrong},
		{"annotated where nobody asked", sent(neverAsked, 105, attempt{record: true}), wrong},
		{"unanswered where nobody asked", sent(neverAsked, 105, unanswered), wrong},
		{"denied where nobody asked", sent(neverAsked, 115, denied), wrong},
		{"injected", sent(enabled, 10, with(askedTemplate, "1")), good},
		{"with the wrong sidecar", sent(enabled, 10, with(selectingTemplate, "1")), wrong},
		{"bare in no window", sent(enabled, 99.9, none), wrong},
		{"bare in a window", sent(enabled, 100, none), bare},
		{"bare after the faults that overlap", sent(enabled, 124.9, none), bare},
		{"bare after the window", sent(enabled, 125.1, none), wrong},
		{"bare where it fails closed", sent(enforced, 105, none), wrong},
		{"bare where it no longer fails closed", sent(selected, 108, none), bare},
		{"bare where the entries are edited", sent(enforced, 205, none), bare},
		{"bare where entries were edited", sent(enforced, 212, none), wrong},
		{"unanswered where it fails open", sent(enabled, 105, unanswered), wrong},
		{"unanswered where it fails closed", sent(enforced, 105, unanswered), refused},
		{"unanswered in no window", sent(enforced, 126, unanswered), wrong},
		{"unanswered where it changes", sent(selected, 105.5, unanswered), refused},
		{"unanswered where it no longer fails closed", sent(selected, 108, unanswered), wrong},
		{"unanswered where the entries are edited", sent(enabled, 205, unanswered), refused},
		{"unanswered while the fault lasts", sent(enforced, 900, unanswered), refused},
		{"denied in no window", sent(enabled, 105, denied), wrong},
		{"denied in a window", sent(enabled, 115, denied), refused},
		{"denied in a window of other namespaces", sent(selected, 115, denied), wrong},
		{"refused elsewhere in a window", sent(neverAsked, 115, quota), elsewhere},
		{"refused elsewhere in no window", sent(neverAsked, 105, quota), wrong},
		{"the new version", sent(enabled, 40.5, with(askedTemplate, "2")), good},
		{"the old version while it settles", sent(enabled, 41.9, with(askedTemplate, "1")), good},
		{"the old version after that", sent(enabled, 42.1, with(askedTemplate, "1")), wrong},
		{"the new version too early", sent(enabled, 39, with(askedTemplate, "2")), wrong},
		{"a version that may have been written", sent(enabled, 155, with(askedTemplate, "3")), good},
		{"the version that may have been replaced", sent(enabled, 159, with(askedTemplate, "2")), good},
		{"the version that was replaced", sent(enabled, 163, with(askedTemplate, "2")), wrong},
		{"without a sidecar that is suspended", sent(enforced, 175, none), good},
		{"with a sidecar that is suspended", sent(enforced, 175, with(askedTemplate, "4")), wrong},
		{"without a sidecar that was suspended", sent(enforced, 183, none), wrong},
		{"one of two sidecars in a window", sent(both, 105, with(askedTemplate, "2")), bare},
		{"one of two sidecars in no window", sent(both, 90, with(librarySidecar, libraryVersion)), wrong},
		{"one of two sidecars, and the other is suspended", sent(both, 175, with(librarySidecar, libraryVersion)), good},
		{"no version", sent(enabled, 10, with(askedTemplate, "none")), wrong},
	} {
		if got, why := someLog().verdict(c.a); got != c.want || (why != "") != (got == wrong) {
			t.Errorf("%s: %s, want %s: %q", c.what, got, c.want, why)
		}
	}
}

// Under a stale fault, what was in force when it began still counts.
func TestAVersionMayBeOldWhileReplicasAreStale(t *testing.T) {
	t.Parallel()
	l := someLog()
	l.faults = append(l.faults, occurrence{effect: effect{stale: 2 * time.Second}, began: at(39), ended: at(60)})
	for seconds, want := range map[float64]verdict{45: good, 61.9: good, 62.1: wrong} {
		if got, why := l.verdict(sent(enabled, seconds, with(askedTemplate, "1"))); got != want {
			t.Errorf("the old version after %v s: %s, want %s: %q", seconds, got, want, why)
		}
	}
}

// Whatever the changes were, always is true of a value that had settled before the time began, and that
// did not change until it ended. It is true of no other value.
func TestAhistorySaysWhatWasSoAllTheTime(t *testing.T) {
	t.Parallel()
	second := func(n int) time.Time { return zero.Add(time.Duration(n) * settle) }
	for range 2000 {
		var h history
		var values [40]bool // from each second on
		now := false
		for i := range values {
			if rand.IntN(6) == 0 {
				now = !now
				h.set(second(i), now)
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
			if got, want := h.always(value, second(from), second(to)), was[value] && len(was) == 1; got != want {
				t.Fatalf("always %v from %d to %d is %v, want %v; %v", value, from, to, got, want, values)
			}
		}
	}
}
