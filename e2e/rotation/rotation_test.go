package rotation

import (
	"testing"
	"time"
)

func TestAPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, p, want int }{
		{0, 99, 0}, {1, 0, 1}, {1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {3, 50, 2},
		{35, 50, 18}, {35, 99, 35}, {100, 50, 50}, {100, 99, 99}, {100, 100, 100}, {101, 99, 100}, {1000, 99, 990},
	} {
		var sorted []time.Duration
		for i := range c.n {
			sorted = append(sorted, time.Duration(i+1))
		}
		if got := Percentile(sorted, c.p); got != time.Duration(c.want) {
			t.Errorf("the %dth percentile of 1 to %d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
}
