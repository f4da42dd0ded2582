package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// A Kind is a kind of namespace.
type Kind string

// The kinds of namespaces that pods are created in.
const (
	Enforced   Kind = "enforced"
	Requested  Kind = "requested"
	NeverAsked Kind = "never-asked"
)

// An Outcome is what became of one pod.
type Outcome struct {
	Kind         Kind
	Namespace    string
	Began, Ended time.Time
	// Closed reports whether the namespace failed closed all the time: it had the label, and
	// API servers had an entry for it.
	Closed bool
	// Missing are the sidecars that the pod should have and lacks.
	Missing []string
	// Unwanted is what the pod has of Pillion and should not have.
	Unwanted string
	// Refused is why the pod was refused, if Pillion was the reason: it denied the pod, or a
	// call of it failed. Otherwise is the same for other reasons.
	Refused, Otherwise string
	// Away reports that no API server answered. Such a pod does not count.
	Away bool
}

// verdict is what an outcome counts as.
type verdict string

const (
	good      verdict = ""
	refused   verdict = "refused"
	bare      verdict = "bare"
	wrong     verdict = "wrong"
	elsewhere verdict = "elsewhere" // refused by something else than Pillion
)

// verdict says what the outcome counts as.
//
//	namespace              refused for Pillion   without a sidecar     with something unwanted
//	fails closed           refused               wrong                 wrong
//	asked, and fails open  refused               bare                  wrong
//	never asked            wrong                 (it should have none) wrong
func (o Outcome) verdict() verdict {
	switch {
	case o.Away:
		return good
	case o.Otherwise != "":
		return elsewhere
	case o.Kind == NeverAsked && (o.Refused != "" || o.Unwanted != ""):
		return wrong
	case o.Refused != "":
		return refused
	case o.Unwanted != "":
		return wrong
	case len(o.Missing) == 0:
		return good
	case o.Kind == Enforced && o.Closed:
		return wrong
	}
	return bare
}

func (o Outcome) String() string {
	what := cmp.Or(o.Refused, o.Otherwise, o.Unwanted, "without "+strings.Join(o.Missing, ", "))
	return fmt.Sprintf("%s %s after %s: %s", o.Began.Format("15:04:05.000"), o.Namespace, o.Ended.Sub(o.Began).Round(time.Millisecond), what)
}

// A Window is how long pods may be refused, or created without their sidecars: from the fault
// until so long after it, or, where somebody mends it, after that was begun. Negative: never.
type Window struct{ Refused, Bare time.Duration }

// A Timeline is when a fault was done, and when somebody began to mend it: zero if nobody did.
type Timeline struct{ Began, Mending time.Time }

// from is when recovery could begin.
func (t Timeline) from() time.Time {
	if t.Mending.IsZero() {
		return t.Began
	}
	return t.Mending
}

// A Result counts the pods of one fault.
type Result struct {
	Name                        string
	Tried, Refused, Wrong, Bare int
	Elsewhere, Calls            int
	P99, Recovered              time.Duration
	RefusedOf, TriedOf, BareOf  map[Kind]int
	LastRefused, LastBare       time.Duration
	Broken                      []string // what is not as stated
	Examples                    []string
}

// String is the line of the fault.
func (r Result) String() string {
	return fmt.Sprintf("FAULT %s tried=%d refused=%d wrong=%d bare=%d p99_ms=%d recovered_ms=%d",
		r.Name, r.Tried, r.Refused, r.Wrong, r.Bare, r.P99.Milliseconds(), r.Recovered.Milliseconds())
}

// maxExamples is how many outcomes of each verdict a result tells.
const maxExamples = 2

// Account counts outcomes. Calls is how often Pillion was called for pods of the namespace
// that never asked: each counts as wrong, since it slows the pod.
func Account(name string, outcomes []Outcome, calls int, t Timeline, w Window) Result {
	r := Result{Name: name, Calls: calls, Wrong: calls, RefusedOf: map[Kind]int{}, TriedOf: map[Kind]int{}, BareOf: map[Kind]int{}}
	slices.SortStableFunc(outcomes, func(a, b Outcome) int { return a.Began.Compare(b.Began) })
	var took []time.Duration
	examples := map[verdict]int{}
	late := map[verdict]int{}
	for _, o := range outcomes {
		if o.Away {
			continue
		}
		r.Tried++
		r.TriedOf[o.Kind]++
		took = append(took, o.Ended.Sub(o.Began))
		v := o.verdict()
		if v == good {
			continue
		}
		after := o.Began.Sub(t.from())
		switch v {
		case elsewhere:
			r.Elsewhere++
		case wrong:
			r.Wrong++
		case refused:
			r.Refused++
			r.RefusedOf[o.Kind]++
			r.LastRefused = max(r.LastRefused, after)
			if w.Refused < 0 || after > w.Refused {
				late[v]++
			}
		case bare:
			r.Bare++
			r.BareOf[o.Kind]++
			r.LastBare = max(r.LastBare, after)
			if w.Bare < 0 || after > w.Bare {
				late[v]++
			}
		}
		if v != elsewhere {
			r.Recovered = max(r.Recovered, after)
		}
		if examples[v]++; examples[v] <= maxExamples {
			r.Examples = append(r.Examples, string(v)+" "+o.String())
		}
	}
	r.P99 = measure.Quantile(took, 0.99)
	if calls > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("Pillion was called %d times for pods of a namespace that never asked", calls))
	}
	if n := r.Wrong - calls; n > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d pods are wrong, want none", n))
	}
	if n := late[refused]; n > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d pods were refused outside of the window (%s), the last one sent after %s", n, windowText(w.Refused), r.LastRefused.Round(time.Millisecond)))
	}
	if n := late[bare]; n > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d pods were created without a sidecar outside of the window (%s), the last one sent after %s", n, windowText(w.Bare), r.LastBare.Round(time.Millisecond)))
	}
	return r
}

func windowText(w time.Duration) string {
	if w < 0 {
		return "none"
	}
	return w.String()
}
