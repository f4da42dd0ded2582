package certs

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// CertManagerOptions are the options of [NewCertManager]. All fields are required but
// Publish.
type CertManagerOptions struct {
	Options

	// SecretName is the Secret of the Certificate. Its keys are tls.crt, tls.key, and
	// ca.crt with the CA that signed the certificate.
	SecretName string

	// Publish says that this process publishes the CA, together with the CAs that it
	// replaced, and remembers those in a key of its own in the Secret. If it is false,
	// cainjector or somebody else publishes the CA.
	Publish bool

	// LeafDuration is the duration of the Certificate. A replaced CA stays published for
	// so long.
	LeafDuration time.Duration
}

// permissions returns the permissions that the provider needs.
func (o *CertManagerOptions) permissions() []permission {
	value, onSecret, onConfigurations := "certs.provider=cert-manager", []string{"list", "watch"}, []string{"list", "watch"}
	if o.Publish {
		value = "certs.certManager.publish=true"
		onSecret, onConfigurations = append(onSecret, "get", "update"), append(onConfigurations, "patch")
	}
	return append(
		secretPermissions(o.Namespace, o.SecretName, value+" and certs.certManager.secretName", onSecret...),
		configurationPermissions(o.WebhookConfigurations, value, onConfigurations...)...)
}

// certManager is the provider whose leaf cert-manager issues and renews.
type certManager struct {
	*store
	options CertManagerOptions

	// candidate is the last sound leaf of the Secret.
	candidate *leaf
}

// NewCertManager returns the cert-manager provider's source. The API server is not called
// before Run.
func NewCertManager(o CertManagerOptions) Source { return newCertManager(o) }

func newCertManager(o CertManagerOptions) *source {
	s := newSource(o.Options, ProviderStatus{Name: "cert-manager", Secret: o.SecretName, Publishes: o.Publish}, o.permissions())
	s.provider = &certManager{store: newStore(s, o.SecretName, readServing), options: o}
	return s
}

// newest implements provider: it reads the leaf, and brings the CAs that the Secret
// remembers and the published bundle one step further.
func (m *certManager) newest(ctx context.Context) *leaf {
	secret, stored, broken := m.look(m.options.Now())
	switch {
	case secret != nil:
		m.problems.note(m.subject(), failedSecret, m.take(ctx, secret, stored, broken))
	case m.candidate != nil:
		m.problems.note(m.subject(), failedSecret, fmt.Errorf("%w; the last certificate stays in use, which ends at %s", m.absent(), timestamp(m.candidate.tls.Leaf.NotAfter)))
	}
	if m.options.Publish && m.known.current != nil {
		m.configurations.publish(ctx, m.store)
	}
	return m.candidate
}

// missing implements provider.
func (m *certManager) missing() error {
	for _, err := range []error{m.secret.unknown(), m.problems.of(m.subject()), m.absent()} {
		if err != nil {
			return fmt.Errorf("secret %s: %w", m.secret.key, err)
		}
	}
	return errors.New("the secret is being read")
}

// trust implements provider.
func (m *certManager) trust() authorities {
	if !m.options.Publish {
		return m.configurations.published(m.serving.leaf())
	}
	return m.known
}

// absent returns an error if there is no Secret. The error says who makes it.
func (m *certManager) absent() error {
	if _, ok := m.secret.get(); ok {
		return nil
	}
	return fmt.Errorf("not found; cert-manager makes it: see `kubectl -n %s describe certificates,issuers`", m.options.Namespace)
}

// take makes the Secret's leaf the candidate, and remembers its CA in the Secret if the
// provider publishes. If the Secret is broken, the last good leaf stays in use.
func (m *certManager) take(ctx context.Context, secret *corev1.Secret, stored authorities, broken error) error {
	next, err := leafFromSecret(secret.Data)
	if err == nil && m.options.Publish {
		err = broken
	}
	if err != nil {
		return err
	}
	if m.options.Publish && !m.known.current.is(next.issuer) {
		return fmt.Errorf("key %s: the CA %s signed the certificate and is revoked; have cert-manager issue another CA and certificate", corev1.TLSCertKey, FingerprintOf(next.issuer))
	}
	if m.candidate == nil || !m.candidate.same(next) || !next.trustAnchor().Equal(m.candidate.trustAnchor()) {
		m.candidate = next
	}
	if !m.options.Publish {
		return nil
	}
	want := m.step()
	m.remember(want, m.options.Now())
	if !stored.same(want) {
		if _, err := m.update(ctx, secret, want); err != nil {
			return err
		}
	}
	if m.known.revoked.has(next.issuer) {
		return fmt.Errorf("the CA %s signed the certificate and is revoked: it stays published until cert-manager has issued a certificate by another CA", FingerprintOf(next.issuer))
	}
	return nil
}

// step returns what the Secret should remember: the CAs that the current one replaced, and
// the revoked ones. A revoked CA that signed the served leaf stays trusted for a moment, and
// the current CA for as long as nothing else signs.
func (m *certManager) step() authorities {
	now, inUse, issuer := m.options.Now(), m.serving.inUse(), m.known.current
	next := m.known.refuse(inUse, now)
	if from, revoked := m.known.revoked.of(issuer.cert); revoked && from.IsZero() {
		next.current, next.revoked[FingerprintOf(issuer.cert)] = issuer, from
	}
	return next.remember(inUse, now, m.options.keep(m.options.LeafDuration))
}

// readServing reads the data of the Secret: the CA that signed the leaf is the current one.
// The error says why there is none.
func readServing(data map[string][]byte) (authorities, error) {
	a := readState(data)
	l, err := leafFromSecret(data)
	if err != nil {
		return a, err
	}
	if l.issuer == nil {
		return a, fmt.Errorf("key %s has no CA that signed the certificate in %s, so that there is nothing to publish", secretCAKey, corev1.TLSCertKey)
	}
	a.current = &ca{cert: l.issuer}
	return a, nil
}

// leafFromSecret reads the leaf from a Secret's data, and finds its CA in ca.crt.
func leafFromSecret(data map[string][]byte) (*leaf, error) {
	l, err := parseLeaf(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	l.issuer = l.signedBy(parseTrusted(data[secretCAKey]))
	return l, nil
}
