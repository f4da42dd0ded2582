package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/webhook"
)

func TestAReplicaThatIsHeldUpWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		held.Store(true)
		checks := []webhook.Check{{Ready: func() error { return nil }}, {Ready: func() error {
			if held.Load() {
				return errors.New("a template is missing")
			}
			return nil
		}}}
		var runs atomic.Int64
		run := once(func() error { return checkAll(checks) }, func(ctx context.Context) error {
			runs.Add(1)
			<-ctx.Done()
			return nil
		})
		stopped, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(stopped) }()
		go func() { _ = run(t.Context()) }()
		time.Sleep(time.Hour)
		stop()
		if err := <-ended; err != nil || runs.Load() != 0 {
			t.Fatalf("%v; %d runs while it is held up", err, runs.Load())
		}
		held.Store(false)
		time.Sleep(time.Second)
		if runs.Load() != 1 {
			t.Errorf("%d runs once it is not", runs.Load())
		}
	})
}
