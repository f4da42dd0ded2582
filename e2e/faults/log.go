package faults

import (
	"fmt"
	"time"
)

const never time.Duration = -1

// settle is how long after a change a pod may be treated as before it.
const settle = time.Second

const clock = "15:04:05.000"

// An Effect is what a fault may do to pods: from its beginning until so long after its end. Where
// it overlaps with other faults, the time counts from the end of the last one. Negative: never.
type Effect struct {
	// Refused is for namespaces that fail closed, and Bare for those that fail open.
	Window
	// Denied is how long Pillion may deny pods.
	Denied time.Duration
	// Stale is how long pods may come from templates as they were when the fault began.
	Stale time.Duration
	// Elsewhere is how long something else than Pillion may refuse pods.
	Elsewhere time.Duration
}

// longest is how long it takes until the fault explains nothing any more.
func (e Effect) longest() time.Duration {
	return max(e.Refused, e.Bare, e.Denied, e.Stale, e.Elsewhere, 0)
}

// A Fault is one that was done. It ends when somebody begins to mend it, or else by itself.
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

// A History is whether something was so at each time. Its zero value is false all the time.
type History struct {
	at     []time.Time // of each change
	values []bool
}

// Set says that it is so, or not, from then on.
func (h *History) Set(at time.Time, value bool) {
	if n := len(h.values); n > 0 && h.values[n-1] == value || n == 0 && !value {
		return
	}
	h.at, h.values = append(h.at, at), append(h.values, value)
}

// Always reports whether it was value from a moment before from until to.
func (h *History) Always(value bool, from, to time.Time) bool {
	now := false // before the first change
	for i, at := range h.at {
		if at.After(to) {
			break
		}
		if at.After(from.Add(-settle)) && (now != value || h.values[i] != value) {
			return false
		}
		now = h.values[i]
	}
	return now == value
}

// A version of a template was sent to an API server, which had answered then. Written is zero if
// it is not known whether the version was ever written. A suspended one has no name.
type version struct {
	name          string
	sent, written time.Time
}

// Log is what was done, and what API servers knew.
type Log struct {
	Faults []Fault
	// Wants are the sidecars that pods of each kind are to have.
	Wants map[Kind][]string
	// Versions are those of each sidecar's template, in their order.
	Versions map[string][]version
	// Closed is whether a namespace has the label of those that fail closed.
	Closed map[string]*History
	// Damaged is whether the entries of the webhook configuration differ from the chart's.
	Damaged History
}

// closed reports whether the namespace failed closed all the time, or never.
func (l *Log) closed(namespace string, from, to time.Time) (always, never bool) {
	h := l.Closed[namespace]
	if h == nil {
		return false, true
	}
	return h.Always(true, from, to), h.Always(false, from, to)
}

// A verdict is what a pod counts as.
type verdict string

const (
	good    verdict = "good"
	refused verdict = "refused"
	bare    verdict = "bare"
	wrong   verdict = "wrong" // no fault explains it
)

// Judge says what the pod counts as, and why if no fault of the log explains it.
//
//	namespace     call failed          denied     without a sidecar    another version
//	never asked   wrong                wrong      (it has none)        (it has none)
//	fails open    wrong                window     window               window
//	fails closed  window               window     wrong                window
//
// Where the label of the namespace changes while the pod is created, either row holds. Where the
// entries are damaged, pods that fail open or closed may be bare, and calls may fail.
func (l *Log) Judge(p Pod) (verdict, string) {
	damaged := !l.Damaged.Always(false, p.Began, p.Ended)
	_, neverClosed := l.closed(p.Namespace, p.Began, p.Ended)
	switch {
	case p.Elsewhere != "":
		return l.excuse(p, refused, "refused, and not for Pillion: "+p.Elsewhere, func(e Effect) time.Duration { return e.Elsewhere })
	case p.Kind == NeverAsked && p.refusal() != "":
		return wrong, "refused, though nobody asked: " + p.refusal()
	case p.Kind == NeverAsked && (len(p.Sidecars) > 0 || p.Touched):
		return wrong, "changed, though nobody asked"
	case p.Unanswered != "" && neverClosed && !damaged:
		return wrong, "refused, though its namespace fails open: " + p.Unanswered
	case p.Unanswered != "":
		return l.excuse(p, refused, "refused outside of the windows: "+p.Unanswered, func(e Effect) time.Duration { return e.Refused })
	case p.Denied != "":
		return l.excuse(p, refused, "denied: "+p.Denied, func(e Effect) time.Duration { return e.Denied })
	}
	return l.judgeSidecars(p, damaged)
}

// judgeSidecars judges a pod that was created.
func (l *Log) judgeSidecars(p Pod, damaged bool) (verdict, string) {
	alwaysClosed, _ := l.closed(p.Namespace, p.Began, p.Ended)
	from := l.inForceFrom(p)
	for _, name := range l.Wants[p.Kind] {
		version, has := p.Sidecars[name]
		switch {
		case l.inForce(name, version, from, p.Ended):
		case has:
			return wrong, fmt.Sprintf("with %s of version %q, which was not in force from %s on", name, version, from.Format(clock))
		case alwaysClosed && !damaged:
			return wrong, "without " + name + ", though its namespace fails closed"
		default:
			return l.excuse(p, bare, "without "+name+" outside of the windows", func(e Effect) time.Duration { return e.Bare })
		}
	}
	return good, ""
}

// excuse returns the verdict if a fault may have done that to the pod.
func (l *Log) excuse(p Pod, v verdict, why string, of func(Effect) time.Duration) (verdict, string) {
	for _, f := range l.Faults {
		if w := of(f.Effect); w >= 0 && l.reaches(f, w, p) {
			return v, ""
		}
	}
	return wrong, why
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
	versions := l.Versions[template]
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
		if l.reaches(f, max(f.longest(), settle), p) {
			active = append(active, f)
		}
	}
	return active
}
