package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// A report is what was measured, by the names of the cases.
type report struct {
	times map[string][]time.Duration
	calls map[string]string
}

// adds is what a case takes more than nothing, in milliseconds, by the medians of its times.
func (r report) adds(name string) float64 {
	return measure.Millis(measure.Quantile(r.times[name], 0.5) - measure.Quantile(r.times[nothing], 0.5))
}

// ratio is what Pillion adds, divided by what the fixed webhook with the same patch adds.
func (r report) ratio() float64 { return r.adds(fluentBit) / r.adds(fixedRecord) }

// missed reports whether the ratio is above [most], or no number.
func (r report) missed() bool { return !(r.ratio() <= most) }

// String has a line for each case, and one for the ratio.
func (r report) String() string {
	var text strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&text, "BENCH e2e,%s p50_ms=%.2f adds_ms=%.2f calls=%s\n", c.name, measure.Millis(measure.Quantile(r.times[c.name], 0.5)), r.adds(c.name), r.calls[c.name])
	}
	fmt.Fprintf(&text, "BENCH e2e,fluent-bit ratio=%.2f target=%.2f\n", r.ratio(), most)
	return text.String()
}
