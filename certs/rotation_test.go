package certs

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// view is an API server that sees configurations late.
type view struct {
	lag     time.Duration
	bundles []seen
}

type seen struct {
	at     time.Time
	bundle []byte
}

// see notes the present bundle and returns the bundle that the API server trusts now.
func (v *view) see(now time.Time, bundle []byte) []byte {
	v.bundles = append(v.bundles, seen{now, bundle})
	for len(v.bundles) > 1 && !v.bundles[1].at.After(now.Add(-v.lag)) {
		v.bundles = v.bundles[1:]
	}
	return v.bundles[0].bundle
}

// The CA is replaced twenty times, in simulated time, while replicas start and stop. At no
// moment does an API server refuse a ready replica, even if the API server sees each
// bundle late.
func TestTwentyRotationsLoseNoHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const settle = 2 * time.Second
		c := newCluster(t, newConfiguration())
		start := func() (*Source, func()) {
			return c.start(func(o *SelfSignedOptions) {
				o.CADuration, o.LeafDuration, o.Settle = 28*time.Second, 7*time.Second, settle
			})
		}
		type replica struct {
			*Source
			stop  func()
			ready bool
		}
		var replicas [3]replica
		for i := range replicas {
			replicas[i].Source, replicas[i].stop = start()
		}
		views := []*view{{lag: 0}, {lag: 1500 * time.Millisecond}}
		random := rand.New(rand.NewPCG(1, 2))
		made, leaves, refused := int64(0), int64(0), 0
		cas := map[string]bool{}
		began := time.Now()
		for made < 21 && time.Since(began) < time.Hour {
			time.Sleep(250 * time.Millisecond)
			now := time.Now()
			bundle := c.configuration().Webhooks[0].ClientConfig.CABundle
			made = 0
			for i := range replicas {
				made += replicas[i].creations.Load()
			}
			for _, v := range views {
				trusted := v.see(now, bundle)
				if now.Sub(began) < settle {
					continue // a fresh install: no API server has ever seen a bundle
				}
				for i := range replicas {
					r := &replicas[i]
					r.ready = r.ready || r.Ready() == nil
					if !r.ready {
						continue
					}
					if err := verifies(r.Source, trusted, now); err != nil {
						refused++
						t.Errorf("after %s, an API server %s behind refuses replica %d: %v", now.Sub(began), v.lag, i, err)
					}
				}
			}
			for _, authority := range parseTrusted(bundle) {
				cas[string(authority.cert.Raw)] = true
			}
			if refused > 5 {
				break
			}
			if random.IntN(60) == 0 && now.Sub(began) > settle {
				i := random.IntN(len(replicas))
				replicas[i].stop()
				leaves += replicas[i].serving.rotations.Load()
				base := replicas[i].creations.Load()
				replicas[i].Source, replicas[i].stop = start()
				replicas[i].ready = false
				replicas[i].creations.Store(base)
			}
		}
		for i := range replicas {
			replicas[i].stop()
			leaves += replicas[i].serving.rotations.Load()
		}
		if int64(len(cas)) < 20 || made > int64(len(cas))+1 || leaves < 100 { // the last CA may not be published yet
			t.Errorf("%d CAs made, %d seen, %d leaves replaced in %s; want at least 20, as many, and 100", made, len(cas), leaves, time.Since(began))
		}
		if n := len(parseTrusted(c.configuration().Webhooks[0].ClientConfig.CABundle)); n > 3 {
			t.Errorf("the bundle still has %d CAs, want that old ones are pruned", n)
		}
		t.Logf("%d CAs, %d leaves in %s", len(cas), leaves, time.Since(began))
	})
}
