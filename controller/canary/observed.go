package canary

import "time"

// state is a state of a pod or of one of its containers that began at a time of the cluster's clocks. They tell
// one state from the next, and nothing more.
type state struct {
	pod, container string
	since          int64
}

// observed says for how long this replica has seen states, by its own monotonic clock: clocks of nodes and
// replicas differ.
type observed map[state]sighting

type sighting struct{ first, last time.Time }

// of returns for how long the state of a pod has been seen, now among the times.
func (o observed) of(s state, now time.Time) time.Duration {
	seen, ok := o[s]
	if !ok {
		seen.first = now
	}
	seen.last = now
	o[s] = seen
	return now.Sub(seen.first)
}

// forget forgets the states that were not seen for so long. A container that crashes again and again goes
// back to the same state each time, so one look without it is not enough.
func (o observed) forget(now time.Time, after time.Duration) {
	for s, seen := range o {
		if now.Sub(seen.last) > after {
			delete(o, s)
		}
	}
}
