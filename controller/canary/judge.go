package canary

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/templates/show"
)

// The reasons of the condition Stopped.
const (
	// ContainersRestart: containers of the template restarted three times or more.
	ContainersRestart = "ContainersRestart"
	// ContainersNotReady: containers of the template are not ready for five minutes.
	ContainersNotReady = "ContainersNotReady"
	// PodsRefused: Pillion refuses the pods.
	PodsRefused = "PodsRefused"
	// StoppedByHand: somebody stopped the canary.
	StoppedByHand = "StoppedByHand"
)

// Workload is a workload of a namespace.
type Workload struct {
	Namespace string
	owner.Workload
}

func (w Workload) String() string {
	return show.Plain(w.Namespace + "/" + strings.ToLower(w.Kind) + "/" + w.Name)
}

func compareWorkloads(a, b Workload) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Failure is what fails of a workload. Its zero value is nothing.
type Failure struct {
	// Reason is one of the reasons above but StoppedByHand.
	Reason string
	// Says is a part of a sentence.
	Says string
}

// Health has the workloads that have pods of one version, and what fails of each.
type Health map[Workload]Failure

// Note adds a pod of a workload, or a refusal. A workload fails if one of its pods does; the first
// failure stays.
func (h Health) Note(w Workload, f Failure) {
	if known, ok := h[w]; !ok || known == (Failure{}) {
		h[w] = f
	}
}

// Failing returns the workloads that fail, in order.
func (h Health) Failing() []Workload {
	var failing []Workload
	for w, f := range h {
		if f != (Failure{}) {
			failing = append(failing, w)
		}
	}
	slices.SortFunc(failing, compareWorkloads)
	return failing
}

// share returns the part of the workloads that fails, as the mean of the parts of the namespaces:
// each namespace counts once, however many workloads it has.
func (h Health) share() *big.Rat {
	all, failing := map[string]int64{}, map[string]int64{}
	for w, f := range h {
		all[w.Namespace]++
		if f != (Failure{}) {
			failing[w.Namespace]++
		}
	}
	sum := new(big.Rat)
	for namespace, n := range all {
		sum.Add(sum, big.NewRat(failing[namespace], n))
	}
	if len(all) > 0 {
		sum.Quo(sum, new(big.Rat).SetInt64(int64(len(all))))
	}
	return sum
}

// counted returns how many failing workloads count: of a namespace at most so many, if a workload of
// another one does not fail.
func (h Health) counted(most int) int {
	well := map[string]bool{}
	for w, f := range h {
		if f == (Failure{}) {
			well[w.Namespace] = true
		}
	}
	n, of := 0, map[string]int{}
	for w, f := range h {
		elsewhere := len(well) > 1 || len(well) == 1 && !well[w.Namespace]
		if f != (Failure{}) && (!elsewhere || of[w.Namespace] < most) {
			of[w.Namespace]++
			n++
		}
	}
	return n
}

// Comparison is what is known of a canary beside the stable version.
type Comparison struct {
	Canary, Stable Health
	// Tolerate is how many workloads of the canary may fail.
	Tolerate int
}

// Judge decides whether a canary is to be stopped, and says why in the reason and the message of
// the condition. The reason is "" if the canary goes on.
//
// A canary stops when more of its workloads fail than are tolerated, and a larger part of its
// workloads fails than of the stable version's. Where the canary does well in another namespace, a
// namespace counts for at most as many failing workloads as are tolerated, and for one at least: so
// nobody stops a canary for others.
func Judge(c Comparison) (reason, message string) {
	if c.Canary.counted(max(c.Tolerate, 1)) <= c.Tolerate || c.Canary.share().Cmp(c.Stable.share()) <= 0 {
		return "", ""
	}
	failing, times := c.Canary.Failing(), map[string]int{}
	says := make([]string, len(failing))
	for i, w := range failing {
		f := c.Canary[w]
		times[f.Reason]++
		says[i] = fmt.Sprintf("%s: %s", w, f.Says)
	}
	reasons := slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b)) })
	return reasons[0], fmt.Sprintf("%d of %d workloads fail with the canary, %d of %d with the stable version; tolerated: %d. %s.",
		len(failing), len(c.Canary), len(c.Stable.Failing()), len(c.Stable), c.Tolerate, listed(says))
}

// mostNamed bounds the workloads that a message names.
const mostNamed = 5

func listed(says []string) string {
	more := len(says) - mostNamed
	if more <= 0 {
		return strings.Join(says, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(says[:mostNamed], "; "), more)
}
