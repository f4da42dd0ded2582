package measure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

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
