package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// reported is a report of 1,000 requests that took 4 µs to 4 ms,
// changed by change.
func reported(change func(*report)) *report {
	r := &report{rate: 1000, peak: 100 << 20, cpu: 0.25}
	for i := range 1000 {
		r.results = append(r.results, took{latency: time.Duration(i+1) * time.Millisecond / 250})
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestTheLastLineHasTheFigures(t *testing.T) {
	r := reported(func(r *report) { r.results[3].err = errors.New("no") })
	lines := strings.Split(strings.TrimSpace(r.String()), "\n")
	const want = "LOAD rate=1000 tried=1000 failed=1 p50_ms=2.00 p99_ms=3.96 max_ms=4.00 rss_mb=100 cpu=0.25"
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("the last line is\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(r.String(), "failed: request 3: no\n") {
		t.Errorf("no failure in\n%s", r)
	}
}

func TestATargetIsMissed(t *testing.T) {
	tests := map[string]struct {
		change func(*report)
		missed bool
	}{
		"all is well":           {nil, false},
		"one failed":            {func(r *report) { r.results[7].err = errors.New("no") }, true},
		"one of 100 is slow":    {func(r *report) { slow(r, 10) }, false},
		"more than one of them": {func(r *report) { slow(r, 11) }, true},
		"128 MiB":               {func(r *report) { r.peak = 128 << 20 }, false},
		"more memory":           {func(r *report) { r.peak = 128<<20 + 1 }, true},
		"nothing was sent":      {func(r *report) { r.results = nil }, true},
	}
	for name, test := range tests {
		if got := reported(test.change).missed(); got != test.missed {
			t.Errorf("%s: missed %t, want %t", name, got, test.missed)
		}
	}
}

// slow makes n requests slower than the target.
func slow(r *report, n int) {
	for i := range n {
		r.results[i].latency = mostP99 + 1
	}
}
