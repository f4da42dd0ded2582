package certs

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Operations that can fail: the keys of [Status].Failures.
const (
	failedPermission = "permission"
	failedSecret     = "secret"
	failedSign       = "sign"
	failedPublish    = "publish"
	failedFiles      = "files"
)

// subjectStart is the object of the problem that keeps the source from starting.
const subjectStart = "start"

// problems records what fails at present, by object. It logs and counts each new
// problem once. It is safe for concurrent use.
type problems struct {
	log *slog.Logger

	mu       sync.Mutex
	present  map[string]failure
	failures map[string]int
}

// failure is the operation that fails for an object.
type failure struct {
	operation string
	err       error
}

// newProblems returns a record with one problem: the source has not started yet.
func newProblems(log *slog.Logger) *problems {
	return &problems{
		log:      log,
		present:  map[string]failure{subjectStart: {err: errors.New("not started yet")}},
		failures: map[string]int{failedPermission: 0, failedSecret: 0, failedSign: 0, failedPublish: 0, failedFiles: 0},
	}
}

// note records the present state of an object: err is its problem, nil if it has
// none. The same error again is neither logged nor counted.
func (p *problems) note(object, operation string, err error) {
	p.mu.Lock()
	before := p.present[object]
	if err == nil {
		delete(p.present, object)
	} else {
		p.present[object] = failure{operation, err}
	}
	changed := err != nil && (before.err == nil || before.err.Error() != err.Error())
	if changed {
		p.failures[operation]++
	}
	p.mu.Unlock()
	switch {
	case changed:
		p.log.Warn("a certificate, its Secret or a caBundle has a problem", "object", object, "error", err)
	case err == nil && before.err != nil && object != subjectStart:
		p.log.Info("a certificate, its Secret or a caBundle is well again", "object", object)
	}
}

// of returns the problem of an object, nil if it has none.
func (p *problems) of(object string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.present[object].err
}

// list returns the problems sorted by object. The problem of [subjectStart] is left
// out: Ready reports it.
func (p *problems) list() []Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Problem
	for _, object := range slices.Sorted(maps.Keys(p.present)) {
		if f := p.present[object]; object != subjectStart {
			all = append(all, Problem{object, f.operation, f.err})
		}
	}
	return all
}

// counts returns how many problems there have been, by operation.
func (p *problems) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.failures)
}
