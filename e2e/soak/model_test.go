package soak

import (
	"regexp"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/e2e/faults"
	"github.com/pillion-dev/pillion/e2e/ground"
)

var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

// pod is one that was sent so many seconds after zero and took 10 ms.
func pod(kind Kind, seconds float64, p Pod) Pod {
	p.Kind, p.Namespace = kind, string(kind)
	p.Began = at(seconds)
	p.Ended = p.Began.Add(10 * time.Millisecond)
	return p
}

func with(template, version string) Pod {
	return Pod{Sidecars: map[string]string{template: version}}
}

// someLog has a namespace of each kind; version 1 of both templates until second 40, version 2 of
// one of them from then on; a fault from second 100 to 110 that overlaps with one to second 120;
// and from second 200 to 210 entries that are damaged.
func someLog() *Log {
	l := &Log{
		Templates: map[string][]version{
			askedTemplate:     {{"1", at(0), at(0)}, {"2", at(40), at(41)}, {"3", at(150), time.Time{}}, {"4", at(160), at(161)}},
			selectingTemplate: {{"1", at(0), at(0)}},
		},
		Closed: map[string]*faults.History{string(Enforced): {}, string(Required): {}},
		Faults: []Fault{
			{Step: Step{Name: "both"}, Effect: Effect{faults.Window{Refused: 5 * time.Second, Bare: 5 * time.Second}, never, 2 * time.Second, never}, Began: at(100), Ended: at(110)},
			{Step: Step{Name: "longer"}, Effect: Effect{faults.Window{Refused: never, Bare: never}, time.Second, never, time.Second}, Began: at(109), Ended: at(120)},
			{Step: Step{Name: "entries"}, Effect: Effect{faults.Window{Refused: time.Second, Bare: time.Second}, never, never, never}, Began: at(200), Ended: at(210)},
			{Step: Step{Name: "lasts"}, Effect: Effect{faults.Window{Refused: time.Second, Bare: never}, never, never, never}, Began: at(300)},
		},
	}
	l.Closed[string(Enforced)].Set(at(-10), true)
	l.Closed[string(Required)].Set(at(-10), true)
	l.Closed[string(Required)].Set(at(105), false)
	l.Damaged.Set(at(200), true)
	l.Damaged.Set(at(210), false)
	return l
}

func TestTheModelSaysWhatMayBecomeOfAPod(t *testing.T) {
	t.Parallel()
	unanswered, denied, elsewhere, bare := Pod{Unanswered: "no answer"}, Pod{Denied: "denied"}, Pod{Elsewhere: "quota"}, Pod{}
	for _, c := range []struct {
		what string
		p    Pod
		ok   bool
	}{
		{"untouched where nobody asked", pod(NeverAsked, 105, bare), true},
		{"changed where nobody asked", pod(NeverAsked, 105, with(askedTemplate, "1")), false},
		{"annotated where nobody asked", pod(NeverAsked, 105, Pod{Touched: true}), false},
		{"unanswered where nobody asked", pod(NeverAsked, 105, unanswered), false},
		{"denied where nobody asked", pod(NeverAsked, 115, denied), false},
		{"injected", pod(Enabled, 10, with(askedTemplate, "1")), true},
		{"with the wrong sidecar", pod(Enabled, 10, with(selectingTemplate, "1")), false},
		{"bare in no window", pod(Enabled, 99.9, bare), false},
		{"bare in a window", pod(Enabled, 100, bare), true},
		{"bare after the faults that overlap", pod(Enabled, 124.9, bare), true},
		{"bare after the window", pod(Enabled, 125.1, bare), false},
		{"bare where it fails closed", pod(Enforced, 105, bare), false},
		{"bare where it no longer fails closed", pod(Required, 108, bare), true},
		{"bare where the entries are damaged", pod(Enforced, 205, bare), true},
		{"bare where entries were damaged", pod(Enforced, 212, bare), false},
		{"unanswered where it fails open", pod(Enabled, 105, unanswered), false},
		{"unanswered where it fails closed", pod(Enforced, 105, unanswered), true},
		{"unanswered in no window", pod(Enforced, 126, unanswered), false},
		{"unanswered where it changes", pod(Required, 105.5, unanswered), true},
		{"unanswered where it no longer fails closed", pod(Required, 108, unanswered), false},
		{"unanswered where the entries are damaged", pod(Enabled, 205, unanswered), true},
		{"unanswered while the fault lasts", pod(Enforced, 900, unanswered), true},
		{"denied in no window", pod(Enabled, 105, denied), false},
		{"denied in a window", pod(Enabled, 115, denied), true},
		{"refused elsewhere in a window", pod(NeverAsked, 115, elsewhere), true},
		{"refused elsewhere in no window", pod(NeverAsked, 105, elsewhere), false},
		{"the new version", pod(Enabled, 40.5, with(askedTemplate, "2")), true},
		{"the old version while it settles", pod(Enabled, 41.9, with(askedTemplate, "1")), true},
		{"the old version after that", pod(Enabled, 42.1, with(askedTemplate, "1")), false},
		{"the new version too early", pod(Enabled, 39, with(askedTemplate, "2")), false},
		{"a version that may have been written", pod(Enabled, 155, with(askedTemplate, "3")), true},
		{"the version that may have been replaced", pod(Enabled, 159, with(askedTemplate, "2")), true},
		{"the version that was replaced", pod(Enabled, 163, with(askedTemplate, "2")), false},
		{"no version", pod(Enabled, 10, with(askedTemplate, "none")), false},
	} {
		if why := someLog().Judge(c.p); (why == "") != c.ok {
			t.Errorf("%s: %q", c.what, why)
		}
	}
}

// Under a stale fault, what was in force when it began still counts.
func TestAVersionMayBeOldWhileReplicasAreStale(t *testing.T) {
	t.Parallel()
	l := someLog()
	l.Faults = append(l.Faults, Fault{Effect: Effect{Stale: 2 * time.Second}, Began: at(39), Ended: at(60)})
	for seconds, ok := range map[float64]bool{45: true, 61.9: true, 62.1: false} {
		if why := l.Judge(pod(Enabled, seconds, with(askedTemplate, "1"))); (why == "") != ok {
			t.Errorf("the old version after %v s: %q", seconds, why)
		}
	}
}

func TestEveryFaultHasItsWindows(t *testing.T) {
	t.Parallel()
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{checkout: checkout, windows: map[string]faults.Window{}}
	if chosen, err := r.choose(regexp.MustCompile("")); err != nil || len(chosen) != len(kinds) {
		t.Errorf("%d of %d faults are chosen: %v", len(chosen), len(kinds), err)
	}
}
