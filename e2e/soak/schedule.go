package soak

import (
	"math/rand/v2"
	"time"
)

// A Step is one fault of a schedule.
type Step struct {
	Name  string
	Round int
	// After is how long after the beginning of the round it is done, and Hold how long it lasts if
	// somebody has to mend it.
	After, Hold time.Duration
	// Pick chooses among what the fault may be done to.
	Pick uint64
}

// A kindOfFault is what a schedule has to know of a fault.
type kindOfFault struct {
	name string
	on   string // two faults on the same are never done at once
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
func schedule(seed uint64, rounds int, kinds []kindOfFault) [][]Step {
	random := rand.New(rand.NewPCG(seed, 0))
	var all [][]Step
	var deck []kindOfFault
	for round := range rounds {
		var steps []Step
		taken := map[string]bool{}
		for n := 1 + random.IntN(mostAtOnce); len(steps) < n; {
			if len(deck) == 0 {
				for _, i := range random.Perm(len(kinds)) {
					deck = append(deck, kinds[i])
				}
			}
			kind := deck[0]
			if taken[kind.on] {
				break // its turn comes with the next round
			}
			deck, taken[kind.on] = deck[1:], true
			steps = append(steps, Step{
				Name: kind.name, Round: round, Pick: random.Uint64(),
				After: time.Duration(random.Int64N(int64(mostAfter))).Round(time.Millisecond),
				Hold:  (leastHold + time.Duration(random.Int64N(int64(mostHold-leastHold)))).Round(time.Millisecond),
			})
		}
		all = append(all, steps)
	}
	return all
}
