package measure

import (
	"slices"
	"time"
)

// Quantile is the smallest of durations that a share q of them, from 0 to 1, does not
// exceed; 0 if there are none. The median is Quantile(d, 0.5).
func Quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	// The rank is rounded up, but not for what a float64 is off by.
	rank := int(q*float64(len(sorted)) + 1 - 1e-9)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Median is the middle of values, the mean of the two in the middle if their number is even.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
