package keeper

import (
	"slices"
	"time"

	"github.com/pillion-dev/pillion/injector/kept"
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
	// idle is how long nothing is looked at where there is nothing to do.
	idle = 10 * time.Minute
)

// place is one label of one namespace.
type place struct{ namespace, label string }

// task is a change that has to be written, or was a moment ago.
type task struct {
	place  place
	change kept.Change
	// open reports whether the namespace in the cache differs, and busy whether the change
	// is being written.
	open, busy bool
	// urgent reports whether the namespace changed just now: others wait.
	urgent bool
	// due is when the change may be written, pause how long the next write of the same
	// change waits after this one.
	due   time.Time
	pause time.Duration
	// failures counts the writes that failed in a row, and failure is why the last one did.
	failures int
	failure  string
}

// tasks are the tasks by place. It is used by one goroutine at a time.
type tasks struct{ byPlace map[place]*task }

func newTasks() *tasks { return &tasks{map[place]*task{}} }

// set says which labels of a namespace have to change; keys are those of all labels.
func (s *tasks) set(namespace string, keys []string, changes []kept.Change, urgent bool, now time.Time) {
	for _, key := range keys {
		at := place{namespace, key}
		t := s.byPlace[at]
		i := slices.IndexFunc(changes, func(c kept.Change) bool { return c.Key == key })
		if i < 0 {
			if t != nil {
				t.open, t.failures, t.failure = false, 0, ""
			}
			continue
		}
		change := changes[i]
		if t == nil || t.change != change {
			t = &task{place: at, change: change, due: now, pause: firstPauseOn, busy: t != nil && t.busy}
			if change.TakesOff() {
				t.pause = firstPauseOff
			}
			s.byPlace[at] = t
		}
		if !t.open && change.TakesOff() {
			t.due = later(t.due, now.Add(settle))
		}
		if urgent && t.failures > 0 { // perhaps what was in the way is gone
			t.due = earlier(t.due, now.Add(firstRetry))
		}
		t.open, t.urgent = true, t.urgent || urgent
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// forget drops the tasks of namespaces that are gone.
func (s *tasks) forget(gone func(namespace string) bool) {
	for at := range s.byPlace {
		if gone(at.namespace) {
			delete(s.byPlace, at)
		}
	}
}

// due returns up to so many namespaces' tasks that are to be written now, the most urgent ones
// first, and marks them as being written. Tasks of one namespace are written together, but for
// those that failed: one that cannot be written delays no other. It returns how long there are
// none after that.
func (s *tasks) due(now time.Time, most int) (due [][]task, next time.Duration) {
	next = idle
	var ready [ranks][]*task // no more than needed of each rank
	for at, t := range s.byPlace {
		wait := t.due.Sub(now)
		switch {
		case t.busy:
		case !t.open && wait <= 0:
			delete(s.byPlace, at) // written long enough ago
		case wait > 0:
			next = min(next, wait)
		default:
			// Of equals any: replicas that begin together seldom write the same.
			if of := &ready[t.rank()]; len(*of) < most {
				*of = append(*of, t)
			}
		}
	}
	all := slices.Concat(ready[:]...)
	together := map[string]int{} // the place in due, by namespace
	for _, t := range all {
		i, there := together[t.place.namespace]
		switch {
		case there && t.failures == 0:
			due[i] = append(due[i], *t)
		case len(due) == most:
			continue
		default:
			if t.failures == 0 {
				together[t.place.namespace] = len(due)
			}
			due = append(due, []task{*t})
		}
		t.busy = true
	}
	return due, next
}

// ranks is how many ranks there are.
const ranks = 4

// rank is lower for what is to be written earlier.
func (t *task) rank() int {
	rank := 0
	if !t.urgent {
		rank = 2
	}
	if t.change.TakesOff() {
		rank++
	}
	return rank
}

// written says that a change was written. The cache closes the task; if it does not, or if
// somebody undoes the change, it is written again after the pause.
func (s *tasks) written(at place, change kept.Change, now time.Time) {
	t := s.byPlace[at]
	if t == nil {
		return
	}
	t.busy = false
	if t.change != change {
		return // the next write is another one
	}
	t.failures, t.failure, t.urgent = 0, "", false
	t.due = now.Add(t.pause)
	last := lastPauseOn
	if change.TakesOff() {
		last = lastPauseOff
	}
	t.pause = min(2*t.pause, last)
}

// again says that a write came too late. It is tried again once the cache has what came first.
func (s *tasks) again(at place, now time.Time) {
	if t := s.byPlace[at]; t != nil {
		t.busy, t.due = false, now.Add(firstRetry)
	}
}

// failed says that a write failed, and reports whether it failed like that before.
func (s *tasks) failed(at place, change kept.Change, why string, now time.Time) (again, often bool) {
	t := s.byPlace[at]
	if t == nil {
		return false, false
	}
	t.busy = false
	if t.change != change {
		return false, false
	}
	again, often = t.failure == why, t.failures >= lasting
	retry := lastRetry
	if t.failures < 16 {
		retry = min(firstRetry<<t.failures, lastRetry)
	}
	t.failures, t.failure, t.urgent = t.failures+1, why, false
	t.due = now.Add(retry)
	return again, often
}

// drop forgets a task: its namespace is gone.
func (s *tasks) drop(at place) { delete(s.byPlace, at) }

// count is how many namespaces lack a label that they should have, and in how many it could
// not be put on or taken off.
type count struct{ lacking, failing int }

func (s *tasks) counts() map[string]count {
	counts := map[string]count{}
	for at, t := range s.byPlace {
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
