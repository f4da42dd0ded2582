package faults

import (
	"context"
	"math/rand/v2"
	"time"
)

// A fault can be done to a cluster.
type fault struct {
	name string
	on   string // in a soak, two faults on the same are never done at once
	// do does it. With mend, somebody mends it then, after hold. Else it has ended when do returns.
	do, mend action
	hold     time.Duration
	// before is done before pods count, and after when they do not count any more.
	before, after action
	// restarts has the fault begin with replicas that were never restarted: a kubelet waits longer
	// before each further restart.
	restarts bool
	// The harm that it does besides the windows of docs/concepts/faults.md: see effect. Zero: never.
	denied           map[namespaceKind]time.Duration
	stale, elsewhere time.Duration
}

// An action is a part of doing a fault.
type action func(context.Context, *run, step) error

// A step is one fault of a schedule.
type step struct {
	fault
	round int
	// wait is how long after the beginning of the round it is done, and hold, of the fault, how long it lasts if
	// somebody has to mend it.
	wait time.Duration
	// pick chooses among the objects that the fault may be done to.
	pick uint64
}

const (
	mostAtOnce = 3
	// mostWait, leastHold and mostHold bound the times of steps.
	mostWait            = 4 * time.Second
	leastHold, mostHold = 3 * time.Second, 9 * time.Second
)

// schedule returns the faults of as many rounds: one, two or three at once. Each fault is done
// once before one is done again. The same seed gives the same rounds; more of them begin with the
// same.
func schedule(seed uint64, rounds int, faults []fault) [][]step {
	random := rand.New(rand.NewPCG(seed, 0))
	var all [][]step
	var deck []fault
	for round := range rounds {
		var steps []step
		taken := map[string]bool{}
		for n := 1 + random.IntN(mostAtOnce); len(steps) < n; {
			if len(deck) == 0 {
				for _, i := range random.Perm(len(faults)) {
					deck = append(deck, faults[i])
				}
			}
			f := deck[0]
			if taken[f.on] {
				break // its turn comes with the next round
			}
			deck, taken[f.on] = deck[1:], true
			s := step{fault: f, round: round, pick: random.Uint64(), wait: time.Duration(random.Int64N(int64(mostWait))).Round(time.Millisecond)}
			s.hold = (leastHold + time.Duration(random.Int64N(int64(mostHold-leastHold)))).Round(time.Millisecond)
			steps = append(steps, s)
		}
		all = append(all, steps)
	}
	return all
}
