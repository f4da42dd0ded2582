package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/webhook"
)

// Run runs the server together with everything else. The rest runs until the server has stopped, so that
// the last review is answered from current data.
func (r *replica) Run(ctx context.Context, start time.Time) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	group.Go(func() error { r.namespaces.Run(background); return nil })
	for _, run := range r.runs {
		group.Go(func() error { return run(background) })
	}
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	group.Go(func() error {
		defer stop()
		return r.server.Run(serving)
	})
	go func() {
		// A failure of any part shuts the server down in order.
		<-background.Done()
		stopServing()
	}()
	go logReadiness(serving, r.server, start, r.log)
	return group.Wait()
}

// logReadiness logs when the server becomes ready. Until then it logs the missing parts every ten seconds.
func logReadiness(ctx context.Context, server *webhook.Server, start time.Time, log *slog.Logger) {
	logged := start
	for err := server.Ready(); err != nil; err = server.Ready() {
		if time.Since(logged) > 10*time.Second {
			logged = time.Now()
			log.Warn("not ready yet", "missing", err)
		}
		if !waiting.For(ctx, 50*time.Millisecond) {
			return
		}
	}
	log.Info("ready", "after", time.Since(start).Round(time.Millisecond))
}

// limitMemory has the garbage collector work harder when the process comes near its limit, in bytes, unless the
// environment variable GOMEMLIMIT has another. That is well below the limit, because with all that
// [webhook.MemoryFor] gives away the process takes more, and because Go does not count the binary.
//
// Far from the limit it works half as often as Go has it by itself, unless GOGC has it otherwise: each review leaves
// much more garbage than it uses later.
func limitMemory(limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit * 9 / 16)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
