package certs

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Operations that can fail: the label operation of metrics.
const (
	failedPermission = "permission"
	failedSecret     = "secret"
	failedSign       = "sign"
	failedPublish    = "publish"
	failedFiles      = "files"
)

// subjectStart is the object of the problem that keeps the source from starting.
const subjectStart = "start"

// problems records the present failures, by object. It logs and counts each new
// problem once. It is safe for concurrent use.
type problems struct {
	log *slog.Logger

	mu       sync.Mutex
	present  map[string]failure
	failures map[string]int64
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
		failures: map[string]int64{failedPermission: 0, failedSecret: 0, failedSign: 0, failedPublish: 0, failedFiles: 0},
	}
}

// record replaces the problem of an object by err; nil means that it has no problem. The
// same error again is neither logged nor counted.
func (p *problems) record(object, operation string, err error) {
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

// get returns the problem of an object, or nil.
func (p *problems) get(object string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.present[object].err
}

// collect emits the metrics of the present problems and of all failures. The problem of
// [subjectStart] is left out: Ready reports it.
func (p *problems) collect(gauge func(*prometheus.Desc, float64, ...string), counter func(*prometheus.Desc, int64, ...string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for object, f := range p.present {
		if object != subjectStart {
			gauge(problemDesc, 1, object, f.operation)
		}
	}
	for operation, n := range p.failures {
		counter(failuresDesc, n, operation)
	}
}
