package certs

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A machine that was suspended wakes up with a wall clock that has jumped, and
// with timers that have not noticed.
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
				o := SelfSignedOptions{Options: testOptions(), SecretName: testSecret}
				if err := o.complete(); err != nil {
					t.Fatal(err)
				}
				now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
				s, err := newSelfSigned(o, c, now)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.background(s))
				readyAndPublished(t, c, s)
				synctest.Wait() // nothing goes on that could notice before this test does
				offset.Store(int64(slept.time))
				woke := time.Now()
				if err := s.Ready(); err == nil {
					t.Error("it says that it is ready with a certificate that has ended")
				}
				eventually(t, func() error {
					if s.Status().Expires.Before(now()) {
						return errors.New("the served certificate has ended")
					}
					return s.Ready()
				})
				if took := time.Since(woke); took > 3*time.Second {
					t.Errorf("it took %s", took)
				}
				bundle := c.configuration().Webhooks[0].ClientConfig.CABundle
				if err := verifies(s, bundle, now()); err != nil {
					t.Error(fmt.Errorf("after waking up: %w", err))
				}
			})
		})
	}
}
