package certs

import (
	"context"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// checkInterval is the longest time between two rounds: certificates expire by the
	// wall clock, and a failed write is tried again.
	checkInterval = time.Second

	// startInterval replaces checkInterval while there is no leaf yet.
	startInterval = 100 * time.Millisecond

	// callTimeout bounds the requests to the API server of one round.
	callTimeout = 5 * time.Second
)

// loop calls one function after every change, and regularly without a change.
type loop struct{ wake chan struct{} }

func newLoop() *loop { return &loop{wake: make(chan struct{}, 1)} }

// changed asks for a round. It never blocks.
func (l *loop) changed() {
	select {
	case l.wake <- struct{}{}:
	default: // a round is due already
	}
}

// run calls round until ctx ends, one call at a time. round returns how long to wait
// for a change before the next call.
func (l *loop) run(ctx context.Context, round func(context.Context) time.Duration) {
	for waiting.Until(ctx, round(ctx), l.wake) {
	}
}
