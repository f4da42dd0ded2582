package soak

import (
	"fmt"
	"testing"
)

func someKinds() []kindOfFault {
	var kinds []kindOfFault
	for i := range 12 {
		kinds = append(kinds, kindOfFault{fmt.Sprint("fault-", i), fmt.Sprint("object-", i%5)})
	}
	return kinds
}

// Whatever the seed, every fault has its turn, and no two at once are on the same object.
func TestEveryFaultIsDone(t *testing.T) {
	t.Parallel()
	kinds := someKinds()
	for seed := range uint64(200) {
		done, most := map[string]int{}, 0
		rounds := schedule(seed, 60, kinds)
		for _, steps := range rounds {
			on := map[string]bool{}
			most = max(most, len(steps))
			if len(steps) == 0 {
				t.Fatalf("seed %d has a round without a fault", seed)
			}
			for _, s := range steps {
				for _, k := range kinds {
					if k.name == s.Name && on[k.on] {
						t.Fatalf("seed %d does two faults at once on %s: %v", seed, k.on, steps)
					} else if k.name == s.Name {
						on[k.on] = true
					}
				}
				done[s.Name]++
				if s.After < 0 || s.After > mostAfter || s.Hold < leastHold || s.Hold > mostHold {
					t.Fatalf("seed %d: %+v", seed, s)
				}
			}
		}
		least, largest := done[kinds[0].name], done[kinds[0].name]
		for _, k := range kinds {
			least, largest = min(least, done[k.name]), max(largest, done[k.name])
		}
		if most != mostAtOnce || least < 3 || largest-least > 1 {
			t.Fatalf("seed %d: %d at once, and %v", seed, most, done)
		}
	}
}
