package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// The targets.
const (
	mostP99    = 5 * time.Millisecond
	mostMemory = 128 << 20
)

// parts is how many parts the time is divided into, to show how far noise goes.
const parts = 6

// A report is what was measured.
type report struct {
	rate    int
	results []took
	peak    int64 // resident, in bytes
	// cpu is what Pillion took of its CPU, waited how long its threads could have run and
	// something else did, both as a share of the time.
	cpu, waited float64
}

// of are the durations that get gives for each request.
func (r *report) of(get func(took) time.Duration) []time.Duration {
	var durations []time.Duration
	for _, t := range r.results {
		durations = append(durations, get(t))
	}
	return durations
}

func latency(t took) time.Duration { return t.latency }

func (r *report) failed() (n int) {
	for _, t := range r.results {
		if t.err != nil {
			n++
		}
	}
	return n
}

// missed reports whether a target is not reached.
func (r *report) missed() bool {
	return len(r.results) == 0 || r.failed() > 0 || measure.Quantile(r.of(latency), 0.99) > mostP99 || r.peak > mostMemory
}

// String has how the time went, the first failures, and the line of figures.
func (r *report) String() string {
	var text strings.Builder
	latencies, late := r.of(latency), r.of(func(t took) time.Duration { return t.late })
	text.WriteString("p99_ms of each part of the time:")
	for _, part := range measure.Blocks(latencies, parts) {
		fmt.Fprintf(&text, " %.2f", measure.Millis(measure.Quantile(part, 0.99)))
	}
	fmt.Fprintf(&text, "\nsent later than due, which is part of the latency: p50_ms=%.2f p99_ms=%.2f\n", measure.Millis(measure.Quantile(late, 0.5)), measure.Millis(measure.Quantile(late, 0.99)))
	fmt.Fprintf(&text, "Pillion's threads together waited for their CPU: %.3f of the time\n", r.waited)
	said := 0
	for i, t := range r.results {
		if t.err != nil && said < 5 {
			fmt.Fprintf(&text, "failed: request %d: %v\n", i, t.err)
			said++
		}
	}
	fmt.Fprintln(&text, r.line("LOAD"))
	return text.String()
}

// line has the figures.
func (r *report) line(name string) string {
	latencies := r.of(latency)
	return fmt.Sprintf("%s rate=%d tried=%d failed=%d p50_ms=%.2f p99_ms=%.2f max_ms=%.2f rss_mb=%.0f cpu=%.2f", name, r.rate, len(r.results), r.failed(),
		measure.Millis(measure.Quantile(latencies, 0.5)), measure.Millis(measure.Quantile(latencies, 0.99)), measure.Millis(measure.Quantile(latencies, 1)),
		float64(r.peak)/(1<<20), r.cpu)
}
