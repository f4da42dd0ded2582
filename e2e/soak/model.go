package soak

import (
	"fmt"
	"time"

	"github.com/pillion-dev/pillion/e2e/faults"
)

// A Kind is a kind of namespace.
type Kind string

// The kinds of namespaces that pods are created in.
const (
	NeverAsked Kind = "never-asked"
	Enabled    Kind = "enabled"
	Enforced   Kind = "enforced"
	Required   Kind = "required" // a template selects it that is required now and then
)

// A Pod is what became of one attempt to create a pod.
type Pod struct {
	Kind         Kind
	Namespace    string
	Began, Ended time.Time
	// Unanswered and Denied are why the pod was refused for Pillion: a call failed, or Pillion
	// denied it. Elsewhere is the same for other reasons, also where no API server answered.
	Unanswered, Denied, Elsewhere string
	// Sidecars are Pillion's containers of the pod that was created: by their names, the version
	// of the template that they come from.
	Sidecars map[string]string
	// Touched reports that the pod has something else of Pillion's.
	Touched bool
}

const never time.Duration = -1

// settle is how long after a change a pod may be treated as before it.
const settle = time.Second

// An Effect is what a fault may do to pods: from its beginning until so long after its end. Where
// it overlaps with other faults, the time counts from the end of the last one. Negative: never.
type Effect struct {
	// Refused is for namespaces that fail closed, and Bare for those that fail open.
	faults.Window
	// Denied is how long Pillion may deny pods.
	Denied time.Duration
	// Stale is how long pods may come from templates as they were when the fault began.
	Stale time.Duration
	// Elsewhere is how long something else than Pillion may refuse pods.
	Elsewhere time.Duration
}

// A Fault is one that was done.
type Fault struct {
	Step
	Effect
	Began, Ended time.Time // Ended is zero while it lasts
}

func (f Fault) String() string {
	ended := "lasts"
	if !f.Ended.IsZero() {
		ended = "until " + f.Ended.Format(clock)
	}
	return fmt.Sprintf("%s (round %d) from %s, %s", f.Name, f.Round, f.Began.Format(clock), ended)
}

const clock = "15:04:05.000"

// A version of a template was sent to an API server, which had answered then. Written is zero if
// it is not known whether the version was ever written.
type version struct {
	name          string
	sent, written time.Time
}

// Log is what was done, and what API servers knew.
type Log struct {
	Faults []Fault
	// Templates are the versions of each template, in their order.
	Templates map[string][]version
	// Closed is whether a namespace has the label of those that fail closed.
	Closed map[string]*faults.History
	// Damaged is whether the entries of the webhook configurations differ from the chart's.
	Damaged faults.History
}

// wants is the template whose sidecar pods of the kind are to have.
var wants = map[Kind]string{Enabled: askedTemplate, Enforced: askedTemplate, Required: selectingTemplate}

// Judge says what is wrong with what became of the pod. It returns "" if the log allows it.
//
//	namespace     call failed          denied     without the sidecar   another version
//	never asked   wrong                wrong      (it has none)         (it has none)
//	fails open    wrong                window     window                window
//	fails closed  window               window     wrong                 window
//
// Where the label of the namespace changes while the pod is created, either row holds. Where the
// entries are damaged, pods that fail open or closed may be bare, and calls may fail.
func (l *Log) Judge(p Pod) string {
	damaged := !l.Damaged.Always(false, p.Began, p.Ended)
	closed := l.Closed[p.Namespace]
	neverClosed := closed == nil || closed.Always(false, p.Began, p.Ended)
	alwaysClosed := closed != nil && closed.Always(true, p.Began, p.Ended)
	template := wants[p.Kind]
	got, has := p.Sidecars[template]
	switch {
	case p.Elsewhere != "":
		if !l.may(p, func(e Effect) time.Duration { return e.Elsewhere }) {
			return "refused, and not for Pillion: " + p.Elsewhere
		}
	case p.Kind == NeverAsked && p.Unanswered+p.Denied != "":
		return "refused, though nobody asked: " + p.Unanswered + p.Denied
	case p.Kind == NeverAsked:
		if len(p.Sidecars) > 0 || p.Touched {
			return "changed, though nobody asked"
		}
	case p.Unanswered != "":
		if neverClosed && !damaged {
			return "refused, though its namespace fails open: " + p.Unanswered
		}
		if !l.may(p, func(e Effect) time.Duration { return e.Refused }) {
			return "refused outside of the windows: " + p.Unanswered
		}
	case p.Denied != "":
		if !l.may(p, func(e Effect) time.Duration { return e.Denied }) {
			return "denied: " + p.Denied
		}
	case !has:
		if alwaysClosed && !damaged {
			return "without " + template + ", though its namespace fails closed"
		}
		if !l.may(p, func(e Effect) time.Duration { return e.Bare }) {
			return "without " + template + " outside of the windows"
		}
	default:
		if from := l.inForceFrom(p); !l.inForce(template, got, from, p.Ended) {
			return fmt.Sprintf("with %s of version %q, which was not in force from %s on", template, got, from.Format(clock))
		}
	}
	return ""
}

// may reports whether a fault may have done it to the pod.
func (l *Log) may(p Pod, of func(Effect) time.Duration) bool {
	for _, f := range l.Faults {
		if w := of(f.Effect); w >= 0 && l.reaches(f, w, p) {
			return true
		}
	}
	return false
}

// reaches reports whether the pod's creation has to do with the fault: it lasted, or recovery from
// it, which takes so long, was not over.
func (l *Log) reaches(f Fault, recovery time.Duration, p Pod) bool {
	if p.Ended.Before(f.Began) {
		return false
	}
	end := f.Ended
	for again := !end.IsZero(); again; {
		again = false
		for _, other := range l.Faults {
			if other.Began.After(end.Add(recovery)) {
				continue
			}
			if other.Ended.IsZero() {
				return true
			}
			if other.Ended.After(end) {
				end, again = other.Ended, true
			}
		}
	}
	return end.IsZero() || !p.Began.After(end.Add(recovery))
}

// inForceFrom is from when on a template counts that was in force at some time for the pod.
func (l *Log) inForceFrom(p Pod) time.Time {
	from := p.Began
	for _, f := range l.Faults {
		if f.Stale >= 0 && f.Began.Before(from) && l.reaches(f, f.Stale, p) {
			from = f.Began
		}
	}
	return from.Add(-settle)
}

// inForce reports whether a version was in force at some time between the two.
func (l *Log) inForce(template, name string, from, to time.Time) bool {
	versions := l.Templates[template]
	for i, v := range versions {
		if v.name != name {
			continue
		}
		var replaced time.Time // by a version that certainly was written
		for _, next := range versions[i+1:] {
			if !next.written.IsZero() {
				replaced = next.written
				break
			}
		}
		if !v.sent.After(to) && (replaced.IsZero() || !replaced.Before(from)) {
			return true
		}
	}
	return false
}

// Active are the faults that have to do with the pod, for a report.
func (l *Log) Active(p Pod) []Fault {
	var active []Fault
	for _, f := range l.Faults {
		if l.reaches(f, max(f.Refused, f.Bare, f.Denied, f.Stale, f.Elsewhere, settle), p) {
			active = append(active, f)
		}
	}
	return active
}
