package certs

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	k8stesting "k8s.io/client-go/testing"
)

// API servers that come back after minutes call with whatever caBundle they have. A watch that
// came back half a minute later would leave it damaged for as long.
func TestAfterTheAPIServerWasAwayADamagedBundleIsRestoredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
