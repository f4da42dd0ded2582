package labels

import (
	"slices"
	"time"
)

const (
	// settle is how long a label has not been wanted before it is taken off. An API server
	// that has just started can say for some seconds that there are no SidecarTemplates.
	settle = 10 * time.Second
	// The pauses after a write that somebody undid, first and last, each twice as long as
	// the one before. The first one for a label that is put on also waits for the cache.
	firstPauseOn, lastPauseOn   = time.Second, 10 * time.Second
	firstPauseOff, lastPauseOff = 30 * time.Second, 10 * time.Minute
	// The pauses after a write that failed.
	firstRetry, lastRetry = time.Second, 5 * time.Minute
	// lasting is how many failures in a row, in seven seconds, show that the next ones fail, too.
	lasting = 3
)

// place is one label of one namespace.
type place struct{ namespace, label string }

// task is a change that has to be written, or was a moment ago.
type task struct {
	change Change
	// open reports whether the namespace in the cache differs.
	open bool
	// after is the moment from which on the change may be written.
	after time.Time
	// writes counts the writes, and failures those that failed since one succeeded. Failure is why
	// the last one failed.
	writes, failures int
	failure          string
}

// tasks are used by one goroutine at a time.
type tasks map[place]*task

// found says which labels of a namespace have to change; keys are those of all labels. What failed
// is tried again soon if the namespace changed: perhaps what was in the way is gone.
func (s tasks) found(namespace string, keys []string, changes []Change, changed bool, now time.Time) {
	for _, key := range keys {
		at := place{namespace, key}
		t, i := s[at], slices.IndexFunc(changes, func(c Change) bool { return c.Key == key })
		switch {
		case i < 0 && t == nil:
			continue
		case i < 0 && now.Before(t.after):
			t.open, t.failures, t.failure = false, 0, ""
			continue
		case i < 0: // written long enough ago
			delete(s, at)
			continue
		case t == nil || t.change != changes[i]:
			t = &task{change: changes[i], after: now}
			s[at] = t
		}
		if settled := now.Add(settle); !t.open && t.change.TakesOff() && t.after.Before(settled) {
			t.after = settled
		}
		if soon := now.Add(firstRetry); changed && t.failures > 0 && soon.Before(t.after) {
			t.after = soon
		}
		t.open = true
	}
}

// due returns the changes of a namespace to write together now, or how long nothing to do:
// -1 is for good. A change that failed before is written alone, so that it delays no other.
func (s tasks) due(namespace string, keys []string, now time.Time) (due []Change, next time.Duration) {
	next = -1
	var failed []Change
	for _, key := range keys {
		t := s[place{namespace, key}]
		switch {
		case t == nil:
		case t.open && !now.Before(t.after) && t.failures == 0:
			due = append(due, t.change)
		case t.open && !now.Before(t.after):
			failed = append(failed, t.change)
		case next < 0 || t.after.Sub(now) < next:
			next = max(t.after.Sub(now), 0)
		}
	}
	if len(due) == 0 && len(failed) > 0 {
		due = failed[:1]
	}
	if len(due) > 0 {
		next = 0
	}
	return due, next
}

// written says that the change was written. The cache closes the task; if it does not, or if
// somebody undoes the change, it is written again after the pause.
func (t *task) written(now time.Time) {
	pause := backoff(firstPauseOn, lastPauseOn, t.writes)
	if t.change.TakesOff() {
		pause = backoff(firstPauseOff, lastPauseOff, t.writes)
	}
	t.writes++
	t.failures, t.failure, t.after = 0, "", now.Add(pause)
}

// failed says that a write failed. It reports whether the write before failed for the same reason,
// and whether writes have failed often.
func (t *task) failed(why string, now time.Time) (again, often bool) {
	again, often = t.failure == why, t.failures >= lasting
	t.failure, t.after = why, now.Add(backoff(firstRetry, lastRetry, t.failures))
	t.failures++
	return again, often
}

// backoff returns the pause after n others, each of which is twice as long as the one before.
func backoff(first, last time.Duration, n int) time.Duration { return min(first<<min(n, 20), last) }

// count is how many namespaces lack a label that they should have, and in how many it could
// not be put on or taken off.
type count struct{ lacking, failing int }

func (s tasks) counts() map[string]count {
	counts := map[string]count{}
	for at, t := range s {
		c := counts[at.label]
		if t.open && !t.change.TakesOff() {
			c.lacking++
		}
		if t.open && t.failures > 0 {
			c.failing++
		}
		counts[at.label] = c
	}
	return counts
}
