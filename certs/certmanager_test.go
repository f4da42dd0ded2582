package certs

import (
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	runtest.Bubble(t, func(t *testing.T) {
		first, second := yearCA(t), yearCA(t)
		week := 7 * 24 * time.Hour
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, week)))
		replicas := c.replicas(3, func() *Source {
			return c.runCertManager(func(o *CertManagerOptions) { o.Publish, o.Settle = true, 2*time.Second })
		})
		runtest.Eventually(t, func() error { return c.published(pemOf(first)) })
		c.reissue(newLeaf(t, second, testDNSName, week))
		runtest.Eventually(t, func() error { return c.published(pemOf(second, first)) })
		for _, s := range replicas {
			keeps(t, s, pemOf(first), 500*time.Millisecond)
		}
		for _, s := range replicas {
			runtest.Eventually(t, func() error { return verifies(s, pemOf(second), time.Now()) })
		}
		c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
		runtest.Eventually(t, func() error { return c.published(pemOf(second, first)) })
	})
}

func TestWithCainjectorNothingIsWrittenAndTheLeafFollowsTheBundle(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		first, second := yearCA(t), yearCA(t)
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, time.Hour)))
		for _, verb := range []string{"patch mutatingwebhookconfigurations", "update secrets", "get secrets", "create secrets"} {
			c.deny(verb, true)
		}
		s := c.runCertManager(nil)
		runtest.Eventually(t, func() error { return mentions(s.Ready(), "its caBundle is empty") })
		c.inject(first)
		runtest.Eventually(t, s.Ready)
		// cainjector has not seen the new Secret yet: only the old leaf verifies.
		c.deny("update secrets", false)
		c.reissue(newLeaf(t, second, testDNSName, time.Hour))
		keeps(t, s, pemOf(first), 300*time.Millisecond)
		c.inject(second)
		runtest.Eventually(t, func() error { return verifies(s, pemOf(second), time.Now()) })
		if c.written() != 0 {
			t.Error("the provider published without the option Publish")
		}
	})
}

// The CA of cert-manager leaked: an admin deletes the Secret of the CA, and that of the certificate.
func TestACAOfCertManagerWhoseSecretIsDeletedIsSoonTrustedNoMore(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		const week, settle = 7 * 24 * time.Hour, 10 * time.Second
		first, leaked, next := dueCA(t), yearCA(t), yearCA(t)
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, week)))
		replicas := c.replicas(2, func() *Source {
			return c.runCertManager(func(o *CertManagerOptions) { o.Publish, o.Settle = true, settle })
		})
		c.reissue(newLeaf(t, leaked, testDNSName, week))
		runtest.Eventually(t, func() error { return verifies(replicas[1], pemOf(leaked), time.Now()) })
		runtest.Eventually(t, func() error { return c.published(pemOf(leaked, first)) })

		c.deleteSecret()
		admitted(t, c, replicas, time.Second)
		if _, err := c.CoreV1().Secrets(testNamespace).Create(t.Context(), servingSecret(t, newLeaf(t, next, testDNSName, week)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		runtest.Eventually(t, func() error { return c.published(pemOf(next, leaked, first)) })
		admitted(t, c, replicas, 2*settle+clockSkew+time.Second)
		if err := errors.Join(c.published(pemOf(next)), verifies(replicas[0], pemOf(next), time.Now())); err != nil {
			t.Error(err)
		}
	})
}
