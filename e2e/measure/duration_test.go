package measure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func upTo(n int) []time.Duration {
	var d []time.Duration
	for i := range n {
		d = append(d, time.Duration(i+1))
	}
	rand.Shuffle(n, func(i, j int) { d[i], d[j] = d[j], d[i] })
	return d
}

func TestAQuantileIsOneOfTheDurations(t *testing.T) {
	tests := []struct {
		n    int
		q    float64
		want time.Duration
	}{
		{0, 0.5, 0}, {1, 0.5, 1}, {1, 0.99, 1}, {2, 0.5, 1}, {3, 0.5, 2}, {4, 0.5, 2}, {100, 0.99, 99}, {1000, 0.99, 990}, {60_000, 0.99, 59_400},
		{101, 0.99, 100}, {100, 0, 1}, {100, 1, 100}, {10, 0.95, 10},
	}
	for _, test := range tests {
		if got := Quantile(upTo(test.n), test.q); got != test.want {
			t.Errorf("the quantile %v of 1 to %d is %d, want %d", test.q, test.n, got, test.want)
		}
	}
}

// What the word means: at least a share q does not exceed it, and of anything smaller that
// is not so.
func TestAShareOfTheDurationsDoesNotExceedTheirQuantile(t *testing.T) {
	for range 2000 {
		n, most := 1+rand.IntN(300), 1+rand.IntN(50)
		var d []time.Duration
		for range n {
			d = append(d, time.Duration(rand.IntN(most)))
		}
		percent := 1 + rand.IntN(100)
		before := slices.Clone(d)
		got := Quantile(d, float64(percent)/100)
		within, below := 0, 0
		for _, x := range d {
			if x <= got {
				within++
			}
			if x < got {
				below++
			}
		}
		if within*100 < percent*n || below*100 >= percent*n {
			t.Fatalf("the %d%% quantile of %v is %d: %d are not above it, %d below", percent, d, got, within, below)
		}
		if !slices.Equal(d, before) {
			t.Fatal("the durations stand in another order")
		}
	}
}

func TestAMedianIsInTheMiddle(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 3: {3}, 2: {3, 1}, 1.5: {9, 1.5, 0}} {
		if got := Median(values); got != want {
			t.Errorf("the median of %v is %v, want %v", values, got, want)
		}
	}
}

func TestBlocksHaveEveryDurationOnce(t *testing.T) {
	for n := range 40 {
		d := upTo(n)
		blocks := Blocks(d, 5)
		if got := slices.Concat(blocks...); len(blocks) != 5 || !slices.Equal(got, d) {
			t.Errorf("blocks %v of %v", blocks, d)
		}
		for _, b := range blocks {
			if len(b) < n/5 || len(b) > n/5+1 {
				t.Errorf("%d durations have a block of %d", n, len(b))
			}
		}
	}
}
