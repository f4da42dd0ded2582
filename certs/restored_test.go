package certs

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Somebody puts a CA of his own into the Secret, and it is taken out again. The foreign CA
// stays trusted as a replaced one does, while leaves of it can be in use, and no longer. No
// replica loses its admission meanwhile.
func TestAForeignCAThatIsTakenOutOfTheSecretIsTrustedNoLongerThanAReplacedOne(t *testing.T) {
	t.Parallel()
	const settle, life = 2 * time.Second, time.Minute
	for _, test := range []struct {
		name string
		// stays is how long the foreign CA is in the Secret.
		stays time.Duration
		// restore takes the foreign CA out, given the Secret's data from before.
		restore func(c *cluster, before map[string][]byte)
	}{
		{"the CA's keys are restored before it signs", time.Second, restoreKeys},
		{"the whole Secret is restored after it came to sign", 10 * settle, restoreAll},
		{"it is only put beside the others, until the Secret's end of time", 0, func(c *cluster, before map[string][]byte) {
			restoreKeys(c, before)
			c.editSecret(func(data map[string][]byte) {
				list := parseTrusted(data[secretTrustedKey])
				for i := range list[1:] {
					list[i+1].until = time.Now().Add(year)
				}
				data[secretTrustedKey] = encodeTrusted(list)
			})
		}},
		{"restored, and then the Secret is deleted", 10 * settle, func(c *cluster, before map[string][]byte) {
			restoreKeys(c, before)
			time.Sleep(time.Second)
			if err := c.CoreV1().Secrets(testNamespace).Delete(context.Background(), testSecret, metav1.DeleteOptions{}); err != nil {
				c.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				var replicas []*source
				for range 2 {
					replicas = append(replicas, c.run(func(o *SelfSignedOptions) { o.Settle, o.LeafDuration = settle, life }))
				}
				readyAndPublished(t, c, replicas[0])
				for _, s := range replicas {
					eventually(t, s.Ready)
				}
				before, foreign := maps.Clone(c.secret().Data), yearCA(t)
				c.editSecret(func(data map[string][]byte) {
					for key, value := range secretOf(t, foreign).Data {
						data[key] = value
					}
				})
				eventually(t, func() error {
					if !c.trusts(foreign) {
						return errors.New("the foreign CA is not published, so the test shows nothing")
					}
					return nil
				})
				admitted(t, c, replicas, test.stays)
				test.restore(c, before)
				admitted(t, c, replicas, settle+life+2*clockSkew+time.Minute)
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
func admitted(t testing.TB, c *cluster, replicas []*source, d time.Duration) {
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
