package rotation

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAResultThatIsNotAsPromisedSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := Result{Tried: 9000, RefusedDamaged: 40, LetThrough: 20, Heal: []time.Duration{time.Millisecond, 999 * time.Millisecond}, Rate: 50}
	if wrong := good.Wrong(); len(wrong) > 0 {
		t.Errorf("a good one: %q", wrong)
	}
	for want, change := range map[string]func(*Result){
		"1 pods that were refused":   func(r *Result) { r.Failed = 1 },
		"2 pods that were created":   func(r *Result) { r.Uninjected = 2 },
		"3 connections":              func(r *Result) { r.BrokenPlanned = 3 },
		"a damage lasted 1s":         func(r *Result) { r.Heal = append(r.Heal, time.Second) },
		"49 pods a second":           func(r *Result) { r.Rate = 49 },
		"0 pods a second in the pla": func(r *Result) { r.Rate = 0 },
	} {
		bad := good
		bad.Heal = slices.Clone(good.Heal)
		change(&bad)
		if wrong := bad.Wrong(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], want) {
			t.Errorf("wrong is %q, want one that begins with %q", wrong, want)
		}
	}
}
