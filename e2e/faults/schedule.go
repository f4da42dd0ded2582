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
	// do does it. With mend, somebody mends it then, after hold. Else it ends by itself, and do returns
	// when it has ended.
	do, mend step
	hold     time.Duration
	// before is done before pods count, and after when they do not count any more.
	before, after step
	// restarts has the fault begin with replicas that were never restarted: a kubelet waits longer
	// before each further restart.
	restarts bool
	// What it does besides the windows of docs/concepts/faults.md: see Effect. Zero: never.
	denied, stale, elsewhere time.Duration
}

// A step is a part of doing a fault.
type step func(context.Context, *run, Step) error

// A Step is one fault of a schedule.
type Step struct {
	fault
	Name  string
	Round int
	// After is how long after the beginning of the round it is done, and Hold how long it lasts if
	// somebody has to mend it.
	After, Hold time.Duration
	// Pick chooses among what the fault may be done to.
	Pick uint64
}

const (
	mostAtOnce = 3
	// mostAfter, leastHold and mostHold bound the times of steps.
	mostAfter           = 4 * time.Second
	leastHold, mostHold = 3 * time.Second, 9 * time.Second
)

// schedule returns the faults of as many rounds: one, two or three at once. Each fault is done
// once before one is done again. The same seed gives the same rounds; more of them begin with the
// same.
func schedule(seed uint64, rounds int, faults []fault) [][]Step {
	random := rand.New(rand.NewPCG(seed, 0))
	var all [][]Step
	var deck []fault
	for round := range rounds {
		var steps []Step
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
			steps = append(steps, Step{
				fault: f, Name: f.name, Round: round, Pick: random.Uint64(),
				After: time.Duration(random.Int64N(int64(mostAfter))).Round(time.Millisecond),
				Hold:  (leastHold + time.Duration(random.Int64N(int64(mostHold-leastHold)))).Round(time.Millisecond),
			})
		}
		all = append(all, steps)
	}
	return all
}
