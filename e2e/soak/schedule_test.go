package soak

import (
	"fmt"
	"reflect"
	"testing"
)

func someKinds() []kindOfFault {
	var kinds []kindOfFault
	for i := range 12 {
		kinds = append(kinds, kindOfFault{fmt.Sprint("fault-", i), fmt.Sprint("object-", i%5)})
	}
	return kinds
}

func TestTheSameSeedDoesTheSameFaults(t *testing.T) {
	t.Parallel()
	kinds := someKinds()
	long := schedule(7, 40, kinds)
	if again := schedule(7, 40, kinds); !reflect.DeepEqual(long, again) {
		t.Errorf("seed 7 gives %v and then %v", long, again)
	}
	if short := schedule(7, 10, kinds); !reflect.DeepEqual(long[:10], short) {
		t.Errorf("ten rounds are %v, and forty begin with %v", short, long[:10])
	}
	if other := schedule(8, 40, kinds); reflect.DeepEqual(long, other) {
		t.Error("seeds 7 and 8 do the same")
	}
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
