// Package waiting has the pauses of loops that follow a cluster. Each ends with its context.
//
// In: a context and a time. Out: whether the loop goes on. Imports: nothing of this module;
// everybody may import it.
package waiting

import (
	"context"
	"time"
)

// Wake ends the pause of one loop.
type Wake chan struct{}

// NewWake returns a [Wake] for [Until].
func NewWake() Wake { return make(Wake, 1) }

// Wake ends the present pause, or the next one. It does not wait.
func (w Wake) Wake() {
	select {
	case w <- struct{}{}:
	default: // the loop has been woken already
	}
}

// For waits for a time. It reports false if ctx ended first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Until waits for a time, or until woken. It reports false if ctx ended first.
func Until(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-woken:
	case <-timer.C:
	}
	return true
}

// UntilReady calls ready at the interval every until it returns nil. It reports false if ctx ended
// first.
func UntilReady(ctx context.Context, every time.Duration, ready func() error) bool {
	for ready() != nil {
		if !For(ctx, every) {
			return false
		}
	}
	return true
}
