package certs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/runtest"
)

// runCertManager starts a replica that follows the Secret, and ends it with the test.
func (c *cluster) runCertManager(change func(*CertManagerOptions)) *Source {
	c.t.Helper()
	o := CertManagerOptions{Options: c.testOptions(), SecretName: testSecret, LeafDuration: 7 * 24 * time.Hour}
	if change != nil {
		change(&o)
	}
	s := NewCertManager(o)
	runtest.Start(c.t, s.Run)
	return s
}

// reissue puts another certificate into the Secret, as cert-manager does. Other keys
// stay.
func (c *cluster) reissue(l *leaf) {
	c.t.Helper()
	c.editSecret(func(data map[string][]byte) {
		for key, value := range servingSecret(c.t, l).Data {
			data[key] = value
		}
	})
}

// inject writes the CA into every entry, as cainjector does.
func (c *cluster) inject(issuer *ca) {
	c.t.Helper()
	c.edit(func(m *admissionv1.MutatingWebhookConfiguration) {
		for i := range m.Webhooks {
			m.Webhooks[i].ClientConfig.CABundle = pemOf(issuer)
		}
	})
}

func TestCertManagersCAIsPublishedBesideTheOldOneBeforeItsLeafIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := yearCA(t), yearCA(t)
		week := 7 * 24 * time.Hour
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, week)))
		var replicas []*Source
		for range 3 {
			replicas = append(replicas, c.runCertManager(func(o *CertManagerOptions) { o.Publish, o.Settle = true, 2*time.Second }))
		}
		for _, s := range replicas {
			eventually(t, s.Ready)
		}
		eventually(t, func() error { return c.published(pemOf(first)) })
		c.reissue(newLeaf(t, second, testDNSName, week))
		eventually(t, func() error { return c.published(pemOf(second, first)) })
		for _, s := range replicas {
			keeps(t, s, pemOf(first), 500*time.Millisecond)
		}
		for _, s := range replicas {
			eventually(t, func() error { return verifies(s, pemOf(second), time.Now()) })
		}
		c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
		eventually(t, func() error { return c.published(pemOf(second, first)) })
	})
}

func TestARenewalByTheSameCAIsServedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := yearCA(t)
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, issuer, testDNSName, time.Hour)))
		s := c.runCertManager(func(o *CertManagerOptions) { o.Publish = true })
		eventually(t, s.Ready)
		next := newLeaf(t, issuer, testDNSName, 2*time.Hour)
		c.reissue(next)
		eventually(t, func() error {
			if !served(t, s).Leaf.Equal(next.tls.Leaf) {
				return errors.New("the renewed leaf is not served")
			}
			return nil
		})
	})
}

func TestWithCainjectorNothingIsWrittenAndTheLeafFollowsTheBundle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := yearCA(t), yearCA(t)
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, time.Hour)))
		for _, verb := range []string{"patch mutatingwebhookconfigurations", "update secrets", "get secrets", "create secrets"} {
			c.deny(verb, true)
		}
		s := c.runCertManager(nil)
		eventually(t, func() error { return mentions(s.Ready(), "its caBundle is empty") })
		c.inject(first)
		eventually(t, s.Ready)
		// cainjector has not seen the new Secret yet: only the old leaf verifies.
		c.deny("update secrets", false)
		c.reissue(newLeaf(t, second, testDNSName, time.Hour))
		keeps(t, s, pemOf(first), 300*time.Millisecond)
		c.inject(second)
		eventually(t, func() error { return verifies(s, pemOf(second), time.Now()) })
		if c.written() != 0 {
			t.Error("the provider published without the option Publish")
		}
	})
}

func TestABrokenOrMissingSecretOfCertManagerIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		s := c.runCertManager(func(o *CertManagerOptions) { o.Publish = true })
		eventually(t, func() error {
			return mentions(s.Ready(), "secret pillion-system/pillion-ca: not found", "kubectl -n pillion-system describe certificates")
		})
		issuer := yearCA(t)
		good := servingSecret(t, newLeaf(t, issuer, testDNSName, time.Hour))
		broken := good.DeepCopy()
		broken.Data[corev1.TLSPrivateKeyKey] = nil
		if _, err := c.CoreV1().Secrets(testNamespace).Create(context.Background(), broken, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { return mentions(s.Ready(), "tls.crt and tls.key") })
		c.editSecret(func(data map[string][]byte) { data[corev1.TLSPrivateKeyKey] = good.Data[corev1.TLSPrivateKeyKey] })
		eventually(t, s.Ready)
		before := served(t, s)
		c.editSecret(func(data map[string][]byte) { data[corev1.TLSCertKey] = []byte("x") })
		eventually(t, func() error {
			if n := failuresOf(s, failedSecret); n != 2 {
				return fmt.Errorf("%d failures, want that the second failure counts", n)
			}
			return nil
		})
		if served(t, s) != before || s.Ready() != nil {
			t.Errorf("a broken Secret replaces the served leaf or costs readiness: %v", s.Ready())
		}
	})
}

func TestMissingPermissionsOfCertManagersProviderNameItsValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		c.deny("update secrets", true)
		s := c.runCertManager(func(o *CertManagerOptions) { o.Publish = true })
		eventually(t, func() error {
			return mentions(s.Ready(), `update secrets pillion-ca in namespace pillion-system`, "certs.certManager.publish=true")
		})
	})
}

func TestARevokedCAOfCertManagerIsGoneAsSoonAsAnotherCASigns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old, first, second := yearCA(t), yearCA(t), yearCA(t)
		week := 7 * 24 * time.Hour
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, old, testDNSName, week)))
		var replicas []*Source
		for range 2 {
			replicas = append(replicas, c.runCertManager(func(o *CertManagerOptions) { o.Publish, o.Settle = true, 10*time.Second }))
		}
		for _, s := range replicas {
			eventually(t, s.Ready)
		}
		c.reissue(newLeaf(t, first, testDNSName, week))
		eventually(t, func() error { return verifies(replicas[1], pemOf(first), time.Now()) })

		// The CA that was replaced, and is trusted for a week.
		eventually(t, func() error { return c.published(pemOf(first, old)) })
		c.revoke(old)
		eventually(t, func() error { return c.published(pemOf(first)) })
		admitted(t, c, replicas, 2*time.Second)

		// The CA that signs stays until cert-manager has issued another one.
		c.revoke(first)
		eventually(t, func() error {
			return mentions(replicas[0].problems.of("secret pillion-system/pillion-ca"), "is revoked", FingerprintOf(first.cert).String())
		})
		admitted(t, c, replicas, 10*time.Second)
		c.reissue(newLeaf(t, second, testDNSName, week))
		admitted(t, c, replicas, 6*time.Second)
		if err := errors.Join(c.published(pemOf(second)), verifies(replicas[0], pemOf(second), time.Now())); err != nil {
			t.Error(err)
		}

		// Somebody puts both back: the trusted ones, and the CA that signs.
		for range 2 {
			c.editSecret(func(data map[string][]byte) {
				data[secretTrustedKey] = pemOf(second, old, first)
				delete(data, secretRevokedKey)
			})
			c.staysWithout(2*time.Second, old, first)
			admitted(t, c, replicas, time.Second)
			c.reissue(newLeaf(t, first, testDNSName, week))
		}
	})
}

func TestARevokedCAOfCertManagerStaysAwayEvenIfTheSecretCannotBeRepaired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, foreign := yearCA(t), yearCA(t)
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, time.Hour)))
		s := c.runCertManager(func(o *CertManagerOptions) { o.Publish = true })
		eventually(t, s.Ready)
		c.revoke(foreign)
		time.Sleep(2 * time.Second)
		c.deny("update secrets", true)
		for _, serving := range []*leaf{newLeaf(t, first, testDNSName, time.Hour), newLeaf(t, foreign, testDNSName, time.Hour)} {
			secret := c.secret().DeepCopy()
			secret.Data = servingSecret(t, serving).Data
			secret.Data[secretTrustedKey] = pemOf(first, foreign)
			secret.ResourceVersion = following(secret.ResourceVersion)
			if err := c.Tracker().Update(secrets, secret, testNamespace); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
				c.staysWithout(time.Second, foreign)
				if err := c.published(pemOf(first)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
