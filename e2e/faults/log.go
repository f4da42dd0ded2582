package faults

import (
	"fmt"
	"time"
)

const never time.Duration = -1

// settle is how long after a change a pod may be treated as before it.
const settle = time.Second

// clock is how times are written.
const clock = "15:04:05.000"

// An effect is the harm that a fault may do to pods: from its beginning until so long after its end.
// Where it overlaps with other faults, the time counts from the end of the last one. Negative: never.
type effect struct {
	// refused is for namespaces that fail closed, and bare for those that fail open.
	window
	// denied is how long Pillion may deny pods of a kind of namespace. Pods of other kinds it may not deny.
	denied map[namespaceKind]time.Duration
	// stale is how long pods may come from templates as they were when the fault began.
	stale time.Duration
	// elsewhere is how long something else than Pillion may refuse pods.
	elsewhere time.Duration
}

// longest is how long it takes until the fault explains nothing any more.
func (e effect) longest() time.Duration {
	longest := max(e.refused, e.bare, e.stale, e.elsewhere, 0)
	for _, denied := range e.denied {
		longest = max(longest, denied)
	}
	return longest
}

// An occurrence is one time that a fault is done. It ends when somebody begins to mend it, or else when
// it is done.
type occurrence struct {
	step
	effect
	began, ended time.Time // ended is zero while it lasts
}

func (o occurrence) String() string {
	ended := "lasts"
	if !o.ended.IsZero() {
		ended = "until " + o.ended.Format(clock)
	}
	return fmt.Sprintf("%s (round %d) from %s, %s", o.name, o.round, o.began.Format(clock), ended)
}

// A history is whether something was so at each time. Its zero value is false all the time.
type history struct {
	times  []time.Time // of each change
	values []bool
}

// set says that it is so, or not, from then on.
func (h *history) set(at time.Time, value bool) {
	if n := len(h.values); n > 0 && h.values[n-1] == value || n == 0 && !value {
		return
	}
	h.times, h.values = append(h.times, at), append(h.values, value)
}

// always reports whether it was value from a moment before from until to.
func (h *history) always(value bool, from, to time.Time) bool {
	now := false // before the first change
	for i, at := range h.times {
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

// A version of a template was sent to an API server, which had answered at the time of writing. That time
// is zero if it is not known whether the version was ever written.
type version struct {
	name          string // empty if the template is suspended
	sent, written time.Time
}

// log is all that was done, and all that API servers knew.
type log struct {
	faults []occurrence
	// wants are the sidecars that pods of each kind are to have.
	wants map[namespaceKind][]string
	// versions are those of each sidecar's template, in their order.
	versions map[string][]version
	// closed is whether a namespace has the label of those that fail closed.
	closed map[string]*history
	// edited is whether the entries of the webhook configuration differ from the chart's.
	edited history
}

// failsClosed reports whether the namespace failed closed all the time, or at no time.
func (l *log) failsClosed(namespace string, from, to time.Time) (always, atNoTime bool) {
	h := l.closed[namespace]
	if h == nil {
		return false, true
	}
	return h.always(true, from, to), h.always(false, from, to)
}

// A verdict is the kind of an attempt's outcome.
type verdict string

const (
	good      verdict = "good"
	refused   verdict = "refused"
	bare      verdict = "bare"
	elsewhere verdict = "refused elsewhere"
	wrong     verdict = "wrong" // no fault explains it
)

// verdict says what the attempt counts as, and why if no fault of the log explains it.
//
//	namespace     call failed          denied     without a sidecar    another version
//	never asked   wrong                wrong      (it has none)        (it has none)
//	fails open    wrong                window     window               window
//	fails closed  window               window     wrong                window
//
// Where the label of the namespace changes while the pod is created, either row holds. Where the
// entries are edited, pods that fail open or closed may be bare, and calls may fail.
func (l *log) verdict(a attempt) (verdict, string) {
	edited := !l.edited.always(false, a.began, a.ended)
	_, open := l.failsClosed(a.namespace, a.began, a.ended)
	switch {
	case a.elsewhere != "":
		return l.excuse(a, elsewhere, "refused, and not for Pillion: "+a.elsewhere, func(e effect) time.Duration { return e.elsewhere })
	case a.kind == neverAsked && a.refusal() != "":
		return wrong, "refused, though nobody asked: " + a.refusal()
	case a.kind == neverAsked && (len(a.sidecars) > 0 || a.record):
		return wrong, "changed, though nobody asked"
	case a.unanswered != "" && open && !edited:
		return wrong, "refused, though its namespace fails open: " + a.unanswered
	case a.unanswered != "":
		return l.excuse(a, refused, "refused outside of the windows: "+a.unanswered, func(e effect) time.Duration { return e.refused })
	case a.denial != "":
		return l.excuse(a, refused, "denied: "+a.denial, func(e effect) time.Duration {
			if denied, ok := e.denied[a.kind]; ok {
				return denied
			}
			return never
		})
	}
	return l.verdictOnSidecars(a, edited)
}

// verdictOnSidecars is the verdict on a pod that was created.
func (l *log) verdictOnSidecars(a attempt, edited bool) (verdict, string) {
	closed, _ := l.failsClosed(a.namespace, a.began, a.ended)
	from := l.inForceFrom(a)
	result := good
	for _, name := range l.wants[a.kind] {
		got, has := a.sidecars[name]
		switch {
		case l.inForce(name, got, from, a.ended):
			continue
		case has:
			return wrong, fmt.Sprintf("with %s of version %q, which was not in force from %s on", name, got, from.Format(clock))
		case closed && !edited:
			return wrong, "without " + name + ", though its namespace fails closed"
		}
		var why string
		if result, why = l.excuse(a, bare, "without "+name+" outside of the windows", func(e effect) time.Duration { return e.bare }); result == wrong {
			return wrong, why
		}
	}
	return result, ""
}

// excuse returns the verdict if a fault may have done that to the pod.
func (l *log) excuse(a attempt, v verdict, why string, of func(effect) time.Duration) (verdict, string) {
	for _, f := range l.faults {
		if w := of(f.effect); w >= 0 && l.reaches(f, w, a) {
			return v, ""
		}
	}
	return wrong, why
}

// reaches reports whether the pod's creation has to do with the fault: it lasted, or recovery from
// it, which takes so long, was not over.
func (l *log) reaches(f occurrence, recovery time.Duration, a attempt) bool {
	if a.ended.Before(f.began) {
		return false
	}
	end := f.ended
	for again := !end.IsZero(); again; {
		again = false
		for _, other := range l.faults {
			if other.began.After(end.Add(recovery)) {
				continue
			}
			if other.ended.IsZero() {
				return true
			}
			if other.ended.After(end) {
				end, again = other.ended, true
			}
		}
	}
	return end.IsZero() || !a.began.After(end.Add(recovery))
}

// inForceFrom is the earliest time at which a version that the pod may have was in force.
func (l *log) inForceFrom(a attempt) time.Time {
	from := a.began
	for _, f := range l.faults {
		if f.stale >= 0 && f.began.Before(from) && l.reaches(f, f.stale, a) {
			from = f.began
		}
	}
	return from.Add(-settle)
}

// inForce reports whether a version was in force at some time between the two. Its name is empty for a
// pod without the sidecar.
func (l *log) inForce(template, name string, from, to time.Time) bool {
	versions := l.versions[template]
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

// active are the faults that have to do with the pod, for a report.
func (l *log) active(a attempt) []occurrence {
	var active []occurrence
	for _, f := range l.faults {
		if l.reaches(f, max(f.longest(), settle), a) {
			active = append(active, f)
		}
	}
	return active
}
