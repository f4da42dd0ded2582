package certs

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"
)

// trusts reports whether any entry has the CA in its caBundle.
func (c *cluster) trusts(authority *ca) bool {
	for _, entry := range c.configuration().Webhooks {
		if contains(parseTrusted(entry.ClientConfig.CABundle), authority.cert) {
			return true
		}
	}
	return false
}

// untilTrusted waits until an entry has the CA in its caBundle.
func (c *cluster) untilTrusted(authority *ca) {
	c.t.Helper()
	eventually(c.t, func() error {
		if !c.trusts(authority) {
			return errors.New("the foreign CA is not published, so the test shows nothing")
		}
		return nil
	})
}

// Somebody puts a CA of his own into the Secret, and it is taken out again. The foreign CA
// may stay trusted while leaves of it can be in use, and no longer. No replica loses its
// admission meanwhile.
func TestAForeignCAThatIsTakenOutOfTheSecretIsSoonTrustedNoMore(t *testing.T) {
	t.Parallel()
	const settle = 2 * time.Second
	for _, test := range []struct {
		name string
		// stays is how long the foreign CA is in the Secret.
		stays time.Duration
		// restore takes the foreign CA out, given the Secret's data from before.
		restore func(c *cluster, before map[string][]byte)
	}{
		{"the CA's keys are restored before it signs", time.Second, restoreKeys},
		{"the whole Secret is restored after it came to sign", 10 * settle, restoreAll},
		{"restored, and then the Secret is deleted", 10 * settle, func(c *cluster, before map[string][]byte) {
			restoreKeys(c, before)
			time.Sleep(time.Second)
			c.deleteSecret()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				var replicas []*Source
				for range 2 {
					replicas = append(replicas, c.run(func(o *SelfSignedOptions) { o.Settle, o.LeafDuration = settle, time.Hour }))
				}
				readyAndPublished(t, c, replicas[0])
				for _, s := range replicas {
					eventually(t, s.Ready)
				}
				before, foreign := maps.Clone(c.secret().Data), yearCA(t)
				c.putIn(foreign)
				c.untilTrusted(foreign)
				admitted(t, c, replicas, test.stays)
				test.restore(c, before)
				admitted(t, c, replicas, settle+clockSkew+5*time.Second)
				if c.trusts(foreign) {
					t.Error("the foreign CA is still trusted")
				}
				admitted(t, c, replicas, 10*time.Second)
			})
		})
	}
}

func restoreKeys(c *cluster, before map[string][]byte) {
	c.editSecret(func(data map[string][]byte) {
		for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
			data[key] = before[key]
		}
	})
}

func restoreAll(c *cluster, before map[string][]byte) {
	c.editSecret(func(data map[string][]byte) {
		clear(data)
		maps.Copy(data, before)
	})
}

// admitted fails the test if, at any moment of the duration d, an entry's caBundle does not
// verify the leaf of a replica.
func admitted(t testing.TB, c *cluster, replicas []*Source, d time.Duration) {
	t.Helper()
	tick := 250 * time.Millisecond
	for began := time.Now(); time.Since(began) < d; time.Sleep(tick) {
		if time.Since(began) > 5*time.Second {
			tick = 5 * time.Second
		}
		for i, s := range replicas {
			for _, entry := range c.configuration().Webhooks {
				if err := verifies(s, entry.ClientConfig.CABundle, time.Now()); err != nil {
					t.Fatalf("after %s, entry %s refuses replica %d: %v", time.Since(began), entry.Name, i, err)
				}
			}
		}
	}
}

// A CA that somebody puts beside the others was never in use: no leaf of it can be lost.
func TestACAThatIsOnlyPutBesideTheOthersIsSoonTrustedNoMore(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]time.Time{"without an end": {}, "with an end far away": time.Now().Add(300 * 24 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				s := c.run(func(o *SelfSignedOptions) { o.Settle, o.LeafDuration = 2*time.Second, 15*time.Minute })
				readyAndPublished(t, c, s)
				foreign := yearCA(t)
				c.editSecret(func(data map[string][]byte) {
					data[secretTrustedKey] = append(data[secretTrustedKey], encodeTrusted([]trusted{{foreign.cert, until}})...)
				})
				limit := 2*time.Second + clockSkew + 5*time.Second
				if !until.IsZero() {
					limit = termsOf(2*time.Second, 15*time.Minute).full + 5*time.Second
				}
				time.Sleep(limit)
				if c.trusts(foreign) {
					t.Error("the foreign CA is still trusted")
				}
			})
		})
	}
}

// putIn writes another CA over the one that signs, as somebody does who may write the
// Secret.
func (c *cluster) putIn(authority *ca) {
	c.editSecret(func(data map[string][]byte) {
		for key, value := range secretOf(c.t, authority).Data {
			data[key] = value
		}
	})
}
