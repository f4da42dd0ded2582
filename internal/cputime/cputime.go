package cputime

import (
	"math"
	"runtime"
	"time"
)

// Of returns the time that a run of the function takes: the least of three rounds. A round runs it for 5 ms or
// more, because clocks of processors are coarse.
func Of(run func()) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 3 {
		runtime.GC()
		began, runs := Used(), time.Duration(0)
		for ; Used()-began < 5*time.Millisecond; runs++ {
			run()
		}
		least = min(least, (Used()-began)/runs)
	}
	return least
}
