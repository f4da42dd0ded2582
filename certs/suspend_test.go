package certs

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// When a suspended machine wakes up, its wall clock has jumped and its timers have stood
// still.
func TestAProcessThatSleptPastExpiryRecoversByTheWallClock(t *testing.T) {
	t.Parallel()
	for _, slept := range []struct {
		name string
		time time.Duration
	}{
		{"past the end of the leaf", 8 * 24 * time.Hour},
		{"past the end of the CA", 400 * 24 * time.Hour},
	} {
		t.Run(slept.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				var offset atomic.Int64
				now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
				s := c.run(func(o *SelfSignedOptions) { o.Now = now })
				readyAndPublished(t, c, s)
				synctest.Wait() // no goroutine may notice the jump before this test looks
				offset.Store(int64(slept.time))
				woke := time.Now()
				if err := s.Ready(); err == nil {
					t.Error("the source is ready with an expired certificate")
				}
				eventually(t, func() error {
					if s.serving.inUse() == nil {
						return errors.New("the served certificate has ended")
					}
					return s.Ready()
				})
				if took := time.Since(woke); took > 3*time.Second {
					t.Errorf("the recovery took %s", took)
				}
				bundle := c.configuration().Webhooks[0].ClientConfig.CABundle
				if err := verifies(s, bundle, now()); err != nil {
					t.Error(fmt.Errorf("after waking up: %w", err))
				}
			})
		})
	}
}
