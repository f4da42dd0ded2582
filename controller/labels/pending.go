package labels

import (
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
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
	// failure is why the last write failed.
	failure string
}

// pending has the tasks of namespaces by label. It is used by one goroutine at a time.
type pending struct {
	tasks map[string]map[string]*task
	// failing has the pauses after writes that failed, on and off those after writes that somebody undid.
	failing, on, off workqueue.TypedRateLimiter[place]
}

func newPending() *pending {
	return &pending{
		tasks:   map[string]map[string]*task{},
		failing: workqueue.NewTypedItemExponentialFailureRateLimiter[place](firstRetry, lastRetry),
		on:      workqueue.NewTypedItemExponentialFailureRateLimiter[place](firstPauseOn, lastPauseOn),
		off:     workqueue.NewTypedItemExponentialFailureRateLimiter[place](firstPauseOff, lastPauseOff),
	}
}

// found says which labels of a namespace have to change; keys are those of all labels. It reports
// whether there is a task.
func (p *pending) found(namespace string, keys []string, changes []Change, now time.Time) bool {
	for _, key := range keys {
		at, t := place{namespace, key}, p.tasks[namespace][key]
		i := slices.IndexFunc(changes, func(c Change) bool { return c.Key == key })
		if i < 0 {
			if t != nil {
				t.open, t.failure = false, ""
				p.failing.Forget(at)
				if !now.Before(t.after) { // written long enough ago
					p.forget(at)
				}
			}
			continue
		}
		if t == nil || t.change != changes[i] {
			p.forget(at)
			t = &task{change: changes[i], after: now}
			if p.tasks[namespace] == nil {
				p.tasks[namespace] = map[string]*task{}
			}
			p.tasks[namespace][key] = t
		}
		if settled := now.Add(settle); !t.open && t.change.TakesOff() && t.after.Before(settled) {
			t.after = settled
		}
		t.open = true
	}
	return len(p.tasks[namespace]) > 0
}

// hasten has what failed tried again soon: perhaps what was in the way is gone.
func (p *pending) hasten(namespace string, now time.Time) {
	for _, t := range p.tasks[namespace] {
		if soon := now.Add(firstRetry); t.failure != "" && soon.Before(t.after) {
			t.after = soon
		}
	}
}

// due returns the changes of a namespace to write together now. One that failed before is
// written alone, so that it delays no other. Next is how long nothing is to be done after them, -1
// for good.
func (p *pending) due(namespace string, now time.Time) (due []Change, next time.Duration) {
	next = -1
	alone := false
	for _, t := range p.tasks[namespace] {
		wait := max(t.after.Sub(now), 0)
		switch {
		case !t.open || wait > 0:
		case t.failure == "" && !alone:
			due = append(due, t.change)
			continue
		case len(due) == 0:
			due, alone = []Change{t.change}, true
			continue
		}
		if next < 0 || wait < next {
			next = wait
		}
	}
	return due, next
}

// onlyTakesOff reports whether all that is to be written of a namespace are labels to take off.
func (p *pending) onlyTakesOff(namespace string) bool {
	takesOff := false
	for _, t := range p.tasks[namespace] {
		if t.open && !t.change.TakesOff() {
			return false
		}
		takesOff = takesOff || t.open
	}
	return takesOff
}

// written says that a change was written. The cache closes its task; if it does not, or if
// somebody undoes the change, it is written again after the pause.
func (p *pending) written(at place, now time.Time) {
	if t := p.tasks[at.namespace][at.label]; t != nil {
		pauses := p.on
		if t.change.TakesOff() {
			pauses = p.off
		}
		t.failure, t.after = "", now.Add(pauses.When(at))
		p.failing.Forget(at)
	}
}

// late says that a write came too late. It is tried again once the cache has what came first.
func (p *pending) late(at place, now time.Time) {
	if t := p.tasks[at.namespace][at.label]; t != nil {
		t.after = now.Add(firstRetry)
	}
}

// failed says that a write failed. It reports whether the write before failed for the same reason,
// and whether writes have failed often.
func (p *pending) failed(at place, why string, now time.Time) (again, often bool) {
	t := p.tasks[at.namespace][at.label]
	if t == nil {
		return false, false
	}
	again, often = t.failure == why, p.failing.NumRequeues(at) >= lasting
	t.failure, t.after = why, now.Add(p.failing.When(at))
	return again, often
}

// drop forgets a namespace that is gone.
func (p *pending) drop(namespace string) {
	for label := range p.tasks[namespace] {
		p.forget(place{namespace, label})
	}
}

// retain forgets all namespaces but these.
func (p *pending) retain(there map[string]bool) {
	for namespace := range p.tasks {
		if !there[namespace] {
			p.drop(namespace)
		}
	}
}

func (p *pending) forget(at place) {
	for _, pauses := range []workqueue.TypedRateLimiter[place]{p.failing, p.on, p.off} {
		pauses.Forget(at)
	}
	delete(p.tasks[at.namespace], at.label)
	if len(p.tasks[at.namespace]) == 0 {
		delete(p.tasks, at.namespace)
	}
}

// count is how many namespaces lack a label that they should have, and in how many it could
// not be put on or taken off.
type count struct{ lacking, failing int }

func (p *pending) counts() map[string]count {
	counts := map[string]count{}
	for _, tasks := range p.tasks {
		for label, t := range tasks {
			c := counts[label]
			if t.open && !t.change.TakesOff() {
				c.lacking++
			}
			if t.open && t.failure != "" {
				c.failing++
			}
			counts[label] = c
		}
	}
	return counts
}
