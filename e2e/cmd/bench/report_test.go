package main

import (
	"strings"
	"testing"
	"time"
)

// measured is a report in which each case takes so many milliseconds every time.
func measured(millis map[string]float64) report {
	r := report{times: map[string][]time.Duration{}, calls: map[string]string{}}
	for _, c := range cases {
		r.times[c.name] = []time.Duration{time.Duration(millis[c.name] * float64(time.Millisecond))}
	}
	return r
}

func TestARatioIsOfWhatIsAddedToNothing(t *testing.T) {
	tests := []struct {
		millis map[string]float64
		missed bool
		line   string
	}{
		{map[string]float64{nothing: 2, fixedRecord: 3, fluentBit: 3.15}, false, "fluent-bit ratio=1.15 target=1.25"},
		{map[string]float64{nothing: 2, fixedRecord: 3, fluentBit: 4}, true, "pillion-fluent-bit p50_ms=4.00 adds_ms=2.00"},
		{map[string]float64{nothing: 2, fixedRecord: 2, fluentBit: 2}, true, "ratio=NaN"},
	}
	for _, test := range tests {
		r := measured(test.millis)
		if got := r.missed(); got != test.missed {
			t.Errorf("%v: missed %t, want %t", test.millis, got, test.missed)
		}
		if !strings.Contains(r.String(), test.line) {
			t.Errorf("%v: no line with %q in\n%s", test.millis, test.line, r)
		}
	}
}
