package rollout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Wave bounds how many go at once: a number, or a percentage of all that are to go.
type Wave struct {
	n       int
	percent bool
}

// ParseWave reads N or N%.
func ParseWave(text string) (Wave, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || percent && n > 100 {
		return Wave{}, errors.New("allowed is a number from 1, or a percentage from 1% to 100%")
	}
	return Wave{n: n, percent: percent}, nil
}

// Of returns the size of a wave where all are to go: at least one.
func (w Wave) Of(all int) int {
	if w.percent {
		return max(1, all*w.n/100)
	}
	return max(1, w.n)
}

// Next chooses the pods of the next wave, size at most. Of each workload it takes no more
// than may be away at once, those that are away already included. Pods that are not ready
// go first: their workload loses nothing. If nothing is chosen though pods are behind, their
// workloads have to become ready first.
func Next(workloads []Workload, size int) []Pod {
	var wave []Pod
	for i := range workloads {
		for _, p := range workloads[i].candidates() {
			if len(wave) == size {
				return wave
			}
			wave = append(wave, p)
		}
	}
	return wave
}

// candidates returns the pods of a workload that may go at once.
func (w Workload) candidates() []Pod {
	var free, broken, ready []Pod
	for _, p := range w.behind() {
		switch {
		case p.Free:
			free = append(free, p)
		case !p.Ready:
			broken = append(broken, p)
		default:
			ready = append(ready, p)
		}
	}
	away := max(0, w.Desired-w.ready())
	broken = broken[:min(len(broken), w.MaxUnavailable)]
	ready = ready[:min(len(ready), max(0, min(w.MaxUnavailable-away, w.MaxUnavailable-len(broken))))]
	return append(append(free, broken...), ready...)
}

// blocked says of which workloads pods are behind, and none may go.
func blocked(workloads []Workload) string {
	var parts []string
	for _, w := range workloads {
		if len(w.behind()) > 0 && len(w.candidates()) == 0 {
			parts = append(parts, fmt.Sprintf("%s in namespace %s: %d of %d pods are ready, and %d may be away", w.Owner, w.Namespace, w.ready(), w.Desired, w.MaxUnavailable))
		}
	}
	return strings.Join(parts, "; ")
}
