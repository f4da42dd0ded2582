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

// Wake has the loop go on now, or after what it does. It does not wait.
func (w Wake) Wake() {
	select {
	case w <- struct{}{}:
	default: // it is to go on already
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

// UntilReady waits until ready returns nil, and asks it each time that every has passed. It
// reports false if ctx ended first.
func UntilReady(ctx context.Context, every time.Duration, ready func() error) bool {
	for ready() != nil {
		if !For(ctx, every) {
			return false
		}
	}
	return true
}
