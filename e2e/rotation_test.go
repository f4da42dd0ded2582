package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// rotating are the certificates that a Pillion has served, and the CAs that signed them.
type rotating struct{ leaves, cas map[string]bool }

// verified is nil if the caBundle of the first entry verifies what each replica serves. It notes the certificates.
func (r *rotating) verified(t *testing.T) error {
	c := webhookConfiguration(t)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.Webhooks[0].ClientConfig.CABundle) {
		return errors.New("the caBundle has no certificate")
	}
	for _, replica := range shared.Replicas(ground.Namespace) {
		leaf, err := presented(t.Context(), replica, func(c *tls.Config) {
			c.InsecureSkipVerify, c.RootCAs = false, roots
		})
		if err != nil {
			return fmt.Errorf("%s: %w", replica.Name, err)
		}
		r.leaves[leaf.SerialNumber.String()] = true
		r.cas[string(leaf.AuthorityKeyId)] = true
	}
	return nil
}

// Not in parallel: it takes the place of the shared release, so that no other test meets the damage.
func TestCertificatesAreReplacedWhilePodsAreMadeAndADamagedBundleIsRestored(t *testing.T) {
	const home = ground.Namespace
	r := &rotating{leaves: map[string]bool{}, cas: map[string]bool{}}
	instead(t, flags([]string{
		"library={fluent-bit}", "shutdown.delaySeconds=0", "certs.caDuration=1m", "certs.leafDuration=6s", "certs.settle=1s",
	})...)
	backToOne(t)
	expectNoError(t, shared.Scale(t.Context(), home, 3))
	// Replicas that started together agree on one CA.
	if err := r.verified(t); err != nil || len(r.leaves) != 3 || len(r.cas) != 1 {
		t.Errorf("three replicas serve %d certificates of %d CAs (%v), want 3 of one", len(r.leaves), len(r.cas), err)
	}
	n := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, n, "fluent-bit")
	load := underLoad(t, n, "fluent-bit")
	expectNoError(t, client.CoreV1().Secrets(home).Delete(t.Context(), caSecret, metav1.DeleteOptions{}))
	eventually(t, 2*soon, func() error {
		if err := r.verified(t); err != nil {
			t.Errorf("while certificates are replaced: %v", err)
		}
		if len(r.cas) < 2 || len(r.leaves) < 9 {
			return fmt.Errorf("%d certificates of %d CAs were served, want 9 of 2", len(r.leaves), len(r.cas))
		}
		return nil
	})
	if c := load.counts(); c[refused]+c[bare] > 0 || c[injected] < 10 {
		t.Errorf("pods while certificates are replaced: %s, want many, and all injected", load)
	}

	for _, bundle := range [][]byte{nil, newIssuer(t).PEM()} {
		expectNoError(t, publish(t.Context(), client, configuration, bundle))
		eventually(t, healBound, func() error { return r.verified(t) })
		injects(t, n, "fluent-bit")
	}
}
