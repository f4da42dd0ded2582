package certs

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/runtest"
)

func given(o *SelfSignedOptions) { o.SecretGiven = true }

// give makes the empty Secret, as the chart does.
func (c *cluster) give() {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testSecret, ResourceVersion: "1", Labels: map[string]string{"of": "the chart"}}}
	if err := c.Tracker().Create(secrets, secret, testNamespace); err != nil {
		c.t.Fatal(err)
	}
}

func TestAGivenSecretThatIsAbsentIsNamedWithTheCommandThatMendsIt(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		c.deny("create secrets", true)
		s := c.run(given)
		const command = "kubectl -n " + testNamespace + " create secret generic " + testSecret
		runtest.Eventually(t, func() error { return mentions(s.Ready(), "does not exist", command) })
		c.give()
		readyAndPublished(t, c, s)
		if made := c.secret(); made.Labels["of"] != "the chart" || made.Annotations["helm.sh/resource-policy"] != "keep" || problemsOf(s) != "" {
			t.Errorf("the Secret was replaced, not filled, or Helm may delete it: %v; the problems are %s", made.ObjectMeta, problemsOf(s))
		}

		// Deleted later, it costs no readiness, and the same CA is still trusted when it is back.
		before := pemOf(c.mustAuthorities().current)
		c.deleteSecret()
		runtest.Eventually(t, func() error { return mentions(errors.New(problemsOf(s)), command) })
		if err := s.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if err := verifies(s, before, time.Now()); err != nil {
			t.Error(err)
		}
		c.give()
		runtest.Eventually(t, func() error {
			stored, err := c.authorities()
			if err == nil {
				err = verifies(s, stored.bundle(), time.Now())
			}
			return err
		})
		runtest.Eventually(t, s.Ready)
	})
}

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
				replicas, _ := c.three(func(o *SelfSignedOptions) { o.Settle, o.LeafDuration = settle, time.Hour })
				before, foreign := maps.Clone(c.secret().Data), yearCA(t)
				c.putIn(foreign)
				runtest.Wait(t, "the foreign CA is published, or the test shows nothing", func() bool { return c.trusts(foreign) })
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
