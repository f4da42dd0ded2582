package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertManagerOptions are the options of [NewCertManager].
type CertManagerOptions struct {
	Options

	// SecretName is the Secret of the Certificate. Its keys are tls.crt, tls.key, and
	// ca.crt with the CA that signed the certificate.
	SecretName string

	// Publish says that this process publishes the CA, together with the CAs that it
	// replaced, and remembers those in a key of its own in the Secret. If it is false,
	// cainjector or somebody else publishes the CA.
	Publish bool

	// LeafDuration is the duration of the Certificate. A replaced CA stays published for so long.
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
		secretPermissions(o.Namespace, o.SecretName, value, onSecret...),
		configurationPermissions(o.WebhookConfigurations, value, onConfigurations...)...)
}

// certManager is the provider whose leaf cert-manager issues and renews.
type certManager struct {
	parts
	options CertManagerOptions
	secret  *objectCache[*corev1.Secret]

	// candidate is the last sound leaf of the Secret.
	candidate *leaf

	// trusted are the CAs that the Secret remembered last.
	trusted []trusted
}

// NewCertManager returns the cert-manager provider's source. The API server is not called before
// Run.
func NewCertManager(o CertManagerOptions) *Source {
	s := newSource(o.Options, o.permissions())
	secret := newSecretCache(o.Client, o.Namespace, o.SecretName, s.changed.Wake)
	s.provider = &certManager{parts: s.parts, options: o, secret: secret}
	s.watches = append(s.watches, secret.run)
	return s
}

// newest implements provider: it reads the leaf, and brings the CAs that the Secret
// remembers and the published bundle one step further.
func (m *certManager) newest(ctx context.Context) *leaf {
	if secret, ok := m.secret.get(); ok {
		m.problems.record(subject(m.secret), failedSecret, m.read(ctx, secret))
	} else if m.candidate != nil {
		m.problems.record(subject(m.secret), failedSecret, fmt.Errorf("%w; the last certificate stays in use, which ends at %s", m.absent(), timestamp(m.candidate.tls.Leaf.NotAfter)))
	}
	if m.candidate != nil && m.options.Publish && m.candidate.issuer != nil {
		m.publisher.publish(ctx, m)
	}
	return m.candidate
}

// missing implements provider.
func (m *certManager) missing() error {
	for _, err := range []error{m.secret.unknown(), m.problems.get(subject(m.secret)), m.absent()} {
		if err != nil {
			return fmt.Errorf("secret %s: %w", m.secret.key, err)
		}
	}
	return errors.New("the secret is being read")
}

// absent returns an error if there is no Secret. The error says who makes it.
func (m *certManager) absent() error {
	if _, ok := m.secret.get(); ok {
		return nil
	}
	return fmt.Errorf("not found; cert-manager makes it: see `kubectl -n %s describe certificates,issuers`", m.options.Namespace)
}

// read takes the leaf from the Secret, and remembers its CA there if the provider
// publishes. If the Secret is broken, the last good leaf stays in use.
func (m *certManager) read(ctx context.Context, secret *corev1.Secret) error {
	next, err := leafFromSecret(secret)
	if err != nil {
		return err
	}
	if next.issuer == nil && m.options.Publish {
		return fmt.Errorf("key %s: no CA in it signed the certificate in %s, so there is no CA to publish", secretCAKey, corev1.TLSCertKey)
	}
	m.setCandidate(next)
	if !m.options.Publish {
		return nil
	}
	now, terms := m.options.Now(), termsOf(m.options.Settle, m.options.LeafDuration)
	if stored := parseTrusted(secret.Data[secretTrustedKey]); len(stored) > 0 {
		m.trusted = stored
	} else {
		m.trusted = endingBy(m.trusted, now.Add(terms.brief)) // the Secret was deleted
	}
	m.trusted = remember(m.trusted, next.issuer, m.serving.inUse(), now, terms)
	changed := secret.DeepCopy()
	changed.Data[secretTrustedKey] = encodeTrusted(m.trusted)
	if bytes.Equal(secret.Data[secretTrustedKey], changed.Data[secretTrustedKey]) {
		return nil
	}
	_, err = m.options.Client.CoreV1().Secrets(secret.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil && !overtaken(err) {
		return fmt.Errorf("writing the key %s: %w", secretTrustedKey, m.permissions.explain(err, "update", "secrets", m.options.SecretName))
	}
	return nil
}

// setCandidate makes the leaf the candidate. The same leaf again changes nothing, so that
// pointers can be compared.
func (m *certManager) setCandidate(next *leaf) {
	if m.candidate == nil || !m.candidate.equal(next) || !next.trustAnchor().Equal(m.candidate.trustAnchor()) {
		m.candidate = next
	}
}

// bundle implements bundles.
func (m *certManager) bundle() []byte {
	return bundle(m.candidate.issuer, m.trusted)
}

// newestBundle implements bundles. An absent or broken Secret leaves the last good one
// in force. The bundle is nil if the Secret does not remember the CA of the served leaf
// yet: this replica is about to see the Secret, and adds that CA first.
func (m *certManager) newestBundle(ctx context.Context) ([]byte, error) {
	secret, err := m.options.Client.CoreV1().Secrets(m.options.Namespace).Get(ctx, m.options.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return m.bundle(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", m.secret.key, m.permissions.explain(err, "get", "secrets", m.options.SecretName))
	}
	next, err := leafFromSecret(secret)
	if err != nil || next.issuer == nil {
		return m.bundle(), nil
	}
	stored := parseTrusted(secret.Data[secretTrustedKey])
	if len(stored) == 0 {
		stored = m.trusted
	}
	if used := m.serving.inUse(); used != nil && !used.Equal(next.issuer) && !contains(stored, used) {
		return nil, nil
	}
	return bundle(next.issuer, stored), nil
}

// leafFromSecret reads the leaf from a Secret, and finds its CA in ca.crt.
func leafFromSecret(secret *corev1.Secret) (*leaf, error) {
	l, err := parseLeaf(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	l.issuer = anchor(l, parseTrusted(secret.Data[secretCAKey]))
	return l, nil
}

// anchor returns the CA of the list that signed a certificate of the leaf's chain, or nil.
func anchor(l *leaf, list []trusted) *x509.Certificate {
	for _, t := range list {
		for _, der := range l.tls.Certificate {
			if cert, err := x509.ParseCertificate(der); err == nil && cert.CheckSignatureFrom(t.cert) == nil {
				return t.cert
			}
		}
	}
	return nil
}
