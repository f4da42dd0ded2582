package main

import (
	"slices"
	"testing"
	"time"
)

func TestADayHasItsNightItsRiseItsDipItsCronJobsAndItsDeploy(t *testing.T) {
	const pods, day = 100_000, 24 * time.Hour
	due := moments(pods, day)
	if len(due) != pods || !slices.IsSorted(due) || due[0] < 0 || due[pods-1] >= day {
		t.Fatalf("%d pods from %s to %s, want %d in their order within %s", len(due), due[0], due[len(due)-1], pods, day)
	}
	between := func(from, until time.Duration) int {
		n := 0
		for _, d := range due {
			if d >= from && d < until {
				n++
			}
		}
		return n
	}
	// Half an hour each, without the first five minutes of an hour.
	at := func(hour float64) int {
		from := time.Duration(hour * float64(time.Hour))
		return between(from, from+25*time.Minute)
	}
	night, forenoon, lunch, deploy := at(3.1), at(10.1), at(12.5), at(20.1)
	if night*4 > forenoon || lunch*5 > forenoon*4 || deploy < forenoon*2 {
		t.Errorf("night %d, forenoon %d, lunch %d, deploy %d", night, forenoon, lunch, deploy)
	}
	if hour, later := between(3*time.Hour, 3*time.Hour+5*time.Minute), between(3*time.Hour+5*time.Minute, 3*time.Hour+10*time.Minute); hour < 5*later {
		t.Errorf("at the hour %d pods, and then %d", hour, later)
	}
}
