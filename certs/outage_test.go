package certs

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/runtest"
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
				runtest.Eventually(t, func() error {
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

// API servers that come back after minutes call with whatever caBundle they have. A watch that
// came back half a minute later would leave it damaged for as long.
func TestAfterTheAPIServerWasAwayADamagedBundleIsRestoredAtOnce(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		var away atomic.Bool
		var tries atomic.Int64
		var mu sync.Mutex
		var standing []watch.Interface
		c.PrependWatchReactor("*", func(action k8stesting.Action) (bool, watch.Interface, error) {
			if away.Load() {
				tries.Add(1)
				return true, nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			w, err := c.watch(action)
			mu.Lock()
			defer mu.Unlock()
			standing = append(standing, w)
			return true, w, err
		})
		s := c.run(nil)
		readyAndPublished(t, c, s)
		away.Store(true)
		mu.Lock()
		for _, w := range standing {
			w.Stop()
		}
		mu.Unlock()
		before := tries.Load()
		time.Sleep(90 * time.Second)
		// The configuration's watch and the Secret's.
		if n := tries.Load() - before; n < 2*90 || n > 2*90*3 {
			t.Errorf("%d tries in 90 s, want one to three a second for each watch", n)
		}
		away.Store(false)
		time.Sleep(time.Second) // until a fake watch stands: it tells nothing of before
		c.edit(emptied)
		time.Sleep(time.Second)
		for _, entry := range c.configuration().Webhooks {
			if len(entry.ClientConfig.CABundle) == 0 {
				t.Error("a second after it was emptied the caBundle is still empty")
			}
		}
	})
}
