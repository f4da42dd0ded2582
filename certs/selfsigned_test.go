package certs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/pillion-dev/pillion/controller/runtest"
)

const testDNSName = testService + "." + testNamespace + ".svc"

// published returns an error unless every entry has the caBundle want, in its first or second text.
func (c *cluster) published(want []byte) error {
	for _, entry := range c.configuration().Webhooks {
		if !bytes.Equal(bytes.TrimSpace(entry.ClientConfig.CABundle), bytes.TrimSpace(want)) {
			return fmt.Errorf("entry %s has the caBundle\n%s\nwant\n%s", entry.Name, entry.ClientConfig.CABundle, want)
		}
	}
	return nil
}

// verifies returns an error if an API server that trusts the bundle refuses the served leaf.
func verifies(s *Source, bundle []byte, at time.Time) error {
	certificate, err := s.GetCertificate(nil)
	if err != nil {
		return err
	}
	return (&leaf{tls: certificate}).verify(bundle, testDNSName, at)
}

func readyAndPublished(t testing.TB, c *cluster, s *Source) *ca {
	t.Helper()
	runtest.Eventually(t, s.Ready)
	current := c.mustAuthorities().current
	runtest.Eventually(t, func() error { return c.published(pemOf(current)) })
	return current
}

func TestReplicasStartedTogetherAgreeOnOneCA(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		replicas, current := c.three(nil)
		for i, s := range replicas {
			if err := verifies(s, pemOf(current), time.Now()); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
		if err := c.published(pemOf(current)); err != nil {
			t.Errorf("the bundle did not stay: %v", err)
		}
		if made := made(replicas); made != 1 {
			t.Errorf("the replicas count %d CAs made, want one", made)
		}
	})
}

// An API server that kept the entries of the version before the first write reads them again after
// the second one: it differs, and comes when no API server is still reading the first.
func TestABundleIsWrittenASecondTimeAndThenNoMore(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		for range 3 {
			c.run(nil)
		}
		for c.written() == 0 {
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		// The requests share a budget with those for the leaf's renewal.
		time.Sleep(checkInterval / 2)
		before := c.secretReads()
		c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Labels["touched"] = "true" })
		time.Sleep(rewriteAfter / 2)
		if asked := c.secretReads() - before; asked > 0 {
			t.Errorf("the replicas asked for the Secret %d times while there was nothing to write", asked)
		}
		first, began := c.configuration(), began.Add(checkInterval/2)
		for c.written() == 1 {
			time.Sleep(time.Millisecond)
		}
		second, took := c.configuration(), time.Since(began)
		if took < rewriteAfter-10*time.Millisecond || took > rewriteAfter+checkInterval {
			t.Errorf("the second write came after %s", took)
		}
		for i, entry := range second.Webhooks {
			if before := first.Webhooks[i].ClientConfig.CABundle; !bytes.Equal(before, append(bytes.Clone(entry.ClientConfig.CABundle), '\n')) {
				t.Errorf("entry %s had the caBundle\n%s\nand then\n%s", entry.Name, before, entry.ClientConfig.CABundle)
			}
		}
		c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Labels["touched"] = "true" })
		time.Sleep(time.Minute)
		if got := c.written(); got != 2 {
			t.Errorf("%d writes", got)
		}
	})
}

func TestAWriteThatComesTooLateIsTriedAgainOnTheNewVersion(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		c.late = 3
		readyAndPublished(t, c, c.run(nil))
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.late != 0 {
			t.Errorf("%d of 3 conflicts did not happen", c.late)
		}
		for _, patch := range c.patches {
			if !strings.Contains(patch, "resourceVersion") {
				t.Errorf("a patch does not say to which version it applies: %s", patch)
			}
		}
	})
}

func mentions(err error, words ...string) error {
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			return fmt.Errorf("the error %q does not mention %q", fmt.Sprint(err), w)
		}
	}
	return nil
}

// dueCA returns a CA that has less than a third of its validity left.
func dueCA(t testing.TB) *ca { return newCA(t, time.Now().Add(20*time.Minute)) }

// keeps fails the test if, at any moment of the duration d, the bundle does not verify the
// served leaf or the replica is not ready.
func keeps(t testing.TB, s *Source, bundle []byte, d time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Millisecond) {
		if err := verifies(s, bundle, time.Now()); err != nil {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		if err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANewCAIsPublishedBesideTheOldOneLongBeforeItsLeafIsServed(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		first := dueCA(t)
		c := newCluster(t, newConfiguration(), secretOf(t, first))
		settle := func(o *SelfSignedOptions) { o.Settle = 2 * time.Second }
		s := c.run(settle)
		second := c.staged()
		runtest.Eventually(t, func() error { return c.published(pemOf(first, second)) })
		runtest.Eventually(t, s.Ready)
		// A replica that starts now signs with the CA that API servers already trust.
		late := c.run(settle)
		runtest.Eventually(t, late.Ready)
		keeps(t, s, pemOf(first), time.Second)
		keeps(t, late, pemOf(first), 100*time.Millisecond)
		for _, replica := range []*Source{s, late} {
			runtest.Eventually(t, func() error { return verifies(replica, pemOf(second), time.Now()) })
		}
		if err := c.published(pemOf(second, first)); err != nil {
			t.Errorf("the old CA is gone while other replicas may still serve its leaves: %v", err)
		}
		if stored := c.mustAuthorities(); !stored.current.cert.Equal(second.cert) || stored.next != nil {
			t.Errorf("after the hand-over the Secret holds %+v", stored)
		}
		if rotations := s.serving.rotations.Load(); rotations != 1 {
			t.Errorf("%d rotations, want one", rotations)
		}
	})
}

// replicas starts n replicas, and waits until they are ready.
func (c *cluster) replicas(n int, run func() *Source) (all []*Source) {
	c.t.Helper()
	for range n {
		all = append(all, run())
	}
	for _, s := range all {
		runtest.Eventually(c.t, s.Ready)
	}
	return all
}

// three starts replicas of the self-signed provider, and waits until they are ready.
func (c *cluster) three(change func(*SelfSignedOptions)) (replicas []*Source, current *ca) {
	c.t.Helper()
	replicas = c.replicas(3, func() *Source { return c.run(change) })
	return replicas, readyAndPublished(c.t, c, replicas[0])
}

// A CA leaked: an admin deletes its Secret, and restarts the replicas.
func TestACAWhoseSecretIsDeletedIsSoonTrustedNoMore(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		const settle = 10 * time.Second
		c := newCluster(t, newConfiguration())
		options := func(o *SelfSignedOptions) { o.Settle, o.LeafDuration = settle, 7*24*time.Hour }
		replicas, leaked := c.three(options)
		c.deleteSecret()
		admitted(t, c, replicas, settle/2)
		late := c.run(options)
		runtest.Eventually(t, late.Ready)
		admitted(t, c, append(replicas, late), 2*settle+clockSkew+5*time.Second)
		if c.trusts(leaked) {
			t.Error("the CA is still published")
		}
		for _, s := range replicas {
			if verifies(s, pemOf(leaked), time.Now()) == nil {
				t.Error("a replica still serves a leaf of the CA")
			}
		}
	})
}

func TestADeletedOrDamagedSecretGivesANewCAThroughTheSameHandOver(t *testing.T) {
	t.Parallel()
	for _, damage := range []struct {
		name string
		do   func(c *cluster)
	}{
		{"deleted", (*cluster).deleteSecret},
		{"emptied", func(c *cluster) { c.editSecret(func(data map[string][]byte) { clear(data) }) }},
		{"key of another CA", func(c *cluster) {
			other := secretOf(c.t, yearCA(c.t)).Data
			c.editSecret(func(data map[string][]byte) { data["tls.key"] = other["tls.key"] })
		}},
		{"text", func(c *cluster) { c.editSecret(func(data map[string][]byte) { data["tls.crt"] = []byte("x") }) }},
	} {
		t.Run(damage.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				settle := func(o *SelfSignedOptions) { o.Settle = time.Second }
				replicas, first := c.three(settle)
				damage.do(c)
				second := c.staged()
				runtest.Eventually(t, func() error { return c.published(pemOf(first, second)) })
				keeps(t, replicas[0], pemOf(first), 500*time.Millisecond)
				for _, s := range replicas {
					runtest.Eventually(t, func() error { return verifies(s, pemOf(second), time.Now()) })
				}
				if made := made(replicas); made != 2 {
					t.Errorf("%d CAs were made, want the first and one more", made)
				}
			})
		})
	}
}

func TestASecretDeletedDuringAHandOverLosesNoCAThatIsInUse(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		first := dueCA(t)
		c := newCluster(t, newConfiguration(), secretOf(t, first))
		long := func(o *SelfSignedOptions) { o.Settle = time.Hour }
		for range 3 {
			c.run(long)
		}
		c.staged()
		time.Sleep(50 * time.Millisecond)
		c.deleteSecret()
		next := c.staged()
		if !c.mustAuthorities().current.cert.Equal(first.cert) {
			t.Error("the CA that signs has changed")
		}
		runtest.Eventually(t, func() error { return c.published(pemOf(first, next)) })
	})
}
