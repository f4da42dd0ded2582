package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// blocks is how many parts the rounds are divided into, to show how far noise goes.
const blocks = 5

// A report is what was measured, by the names of the cases.
type report struct {
	times map[string][]time.Duration // in the order of the rounds
	calls map[string]string
}

// adds is what a case takes more than nothing, in milliseconds, by the medians of times.
func adds(times map[string][]time.Duration, name string) float64 {
	return measure.Millis(measure.Quantile(times[name], 0.5) - measure.Quantile(times[nothing], 0.5))
}

// ratio is what Pillion adds, divided by what the fixed webhook with the same patch adds.
func ratio(times map[string][]time.Duration) float64 {
	return adds(times, fluentBit) / adds(times, fixedRecord)
}

// inBlocks are the ratios of each block of rounds by itself.
func (r report) inBlocks() []float64 {
	var ratios []float64
	for i := range blocks {
		part := map[string][]time.Duration{}
		for name, times := range r.times {
			part[name] = measure.Blocks(times, blocks)[i]
		}
		ratios = append(ratios, ratio(part))
	}
	return ratios
}

// missed reports whether the ratio is above [most], or no number.
func (r report) missed() bool { return !(ratio(r.times) <= most) }

// String has a line for each case, and one for the ratio.
func (r report) String() string {
	var text strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&text, "BENCH e2e,%s p50_ms=%.2f adds_ms=%.2f calls=%s\n", c.name, measure.Millis(measure.Quantile(r.times[c.name], 0.5)), adds(r.times, c.name), r.calls[c.name])
	}
	parts := r.inBlocks()
	fmt.Fprintf(&text, "BENCH e2e,fluent-bit ratio=%.2f target=%.2f blocks=%.2f (%.2f to %.2f)\n", ratio(r.times), most,
		measure.Median(parts), slices.Min(parts), slices.Max(parts))
	return text.String()
}
