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
	"k8s.io/client-go/kubernetes"
)

// CertManagerOptions are the options of [NewCertManager].
type CertManagerOptions struct {
	Options

	// SecretName is the Secret of the Certificate: tls.crt, tls.key, and in ca.crt
	// the CA that signed it.
	SecretName string

	// Publish has this process publish the CA, beside those that it replaced, and
	// remember those in a key of its own in the Secret. Without, it is cainjector
	// that publishes, or somebody else.
	Publish bool

	// LeafDuration is the duration of the Certificate (default 168h): a CA that was
	// replaced is published for so long.
	LeafDuration time.Duration
}

// certManager is the [Source] whose leaf cert-manager issues and renews.
type certManager struct {
	*serving
	options CertManagerOptions
	secret  *followed[*corev1.Secret]

	// candidate is the last sound leaf of the Secret.
	candidate *leaf

	// trusted is what the Secret last remembered.
	trusted []trusted
}

// NewCertManager prepares the provider. The error names the option that is
// missing or wrong; nothing is asked of the API server before Run.
func NewCertManager(o CertManagerOptions) (Source, error) {
	client, err := o.open("certificates from cert-manager", o.complete)
	if err != nil {
		return nil, err
	}
	return newCertManager(o, client, time.Now)
}

func (o *CertManagerOptions) complete() error {
	if err := o.Options.complete(); err != nil {
		return err
	}
	if err := required("SecretName", o.SecretName); err != nil {
		return err
	}
	if o.LeafDuration == 0 {
		o.LeafDuration = defaultLeafDuration
	}
	if o.LeafDuration < 0 {
		return fmt.Errorf("LeafDuration (%s) must be greater than zero", o.LeafDuration)
	}
	return nil
}

func newCertManager(o CertManagerOptions, client kubernetes.Interface, now func() time.Time) (*certManager, error) {
	shared, err := newServing(o.Options, client, now)
	if err != nil {
		return nil, err
	}
	s := &certManager{serving: shared, options: o}
	s.secret, err = followSecret(client, o.Namespace, o.SecretName, s.changed)
	return s, err
}

// Run follows the Secret until ctx ends.
func (s *certManager) Run(ctx context.Context) error {
	provider, onSecret, onConfigurations := "certs.provider=cert-manager", []string{"list", "watch"}, []string{"list", "watch"}
	if s.options.Publish {
		provider = "certs.certManager.publish=true"
		onSecret, onConfigurations = append(onSecret, "get", "update"), append(onConfigurations, "patch")
	}
	permissions := append(
		secretPermissions(s.options.Namespace, s.options.SecretName, provider+" and certs.certManager.secretName", onSecret...),
		configurationPermissions(s.options.WebhookConfigurations, provider, onConfigurations...)...)
	return s.run(ctx, permissions, s.reconcile, s.secret.run)
}

// Ready follows [Source].
func (s *certManager) Ready() error { return s.ready(s.noLeaf) }

// noLeaf says why there is no leaf yet.
func (s *certManager) noLeaf() error {
	for _, err := range []error{s.secret.unknown(), s.problem(subject(s.secret)), s.absent()} {
		if err != nil {
			return fmt.Errorf("secret %s: %w", s.secret.key, err)
		}
	}
	return errors.New("it is being read")
}

// absent says that there is no Secret, and who makes it; nil if there is one.
func (s *certManager) absent() error {
	if _, ok := s.secret.get(); ok {
		return nil
	}
	return fmt.Errorf("not found; cert-manager makes it: see `kubectl -n %s describe certificates,issuers`", s.options.Namespace)
}

// reconcile brings what the Secret remembers, the published bundle and the served
// leaf one step further.
func (s *certManager) reconcile(ctx context.Context) {
	if secret, ok := s.secret.get(); ok {
		s.note(subject(s.secret), failedSecret, s.read(ctx, secret))
	} else if s.candidate != nil {
		s.note(subject(s.secret), failedSecret, fmt.Errorf("%w; the last certificate stays in use, which ends at %s", s.absent(), timestamp(s.candidate.tls.Leaf.NotAfter)))
	}
	if s.candidate == nil {
		return
	}
	if s.options.Publish && s.candidate.issuer != nil {
		s.publish(ctx, bundle(s.candidate.issuer, s.trusted), s.newestBundle)
	}
	s.offer(s.candidate)
}

// read takes the leaf from the Secret; a broken one leaves the last good one in
// use.
func (s *certManager) read(ctx context.Context, secret *corev1.Secret) error {
	next, err := leafFromSecret(secret)
	if err != nil {
		return err
	}
	if next.issuer == nil && s.options.Publish {
		return fmt.Errorf("key %s has no CA that signed the certificate in %s, so that there is nothing to publish", secretCAKey, corev1.TLSCertKey)
	}
	if s.candidate == nil || !s.candidate.same(next) || !next.trustAnchor().Equal(s.candidate.trustAnchor()) {
		s.candidate = next
	}
	if !s.options.Publish {
		return nil
	}
	stored := parseTrusted(secret.Data[secretTrustedKey])
	if len(stored) > 0 {
		s.trusted = stored
	}
	keep := max(s.settle, 0) + s.options.LeafDuration + backdate(s.options.LeafDuration)
	text := encodeTrusted(remember(s.trusted, next.issuer, s.inUse(), s.now(), keep))
	if bytes.Equal(text, secret.Data[secretTrustedKey]) {
		return nil
	}
	changed := secret.DeepCopy()
	changed.Data[secretTrustedKey] = text
	_, err = s.client.CoreV1().Secrets(secret.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil && !overtaken(err) {
		return fmt.Errorf("writing its key %s: %w", secretTrustedKey, s.forbidden(err, "update", "secrets", s.options.SecretName))
	}
	return nil
}

// leafFromSecret reads the leaf, and finds its CA in ca.crt.
func leafFromSecret(secret *corev1.Secret) (*leaf, error) {
	l, err := parseLeaf(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	l.issuer = anchor(l, parseTrusted(secret.Data[secretCAKey]))
	return l, nil
}

// anchor is the CA among list that the leaf's chain ends in, nil if there is none.
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

// inUse is the CA of the served leaf, while that leaf is valid.
func (s *certManager) inUse() *x509.Certificate {
	served := s.handover.served.Load()
	if served == nil || expired(served.tls.Leaf, s.now()) {
		return nil
	}
	return served.issuer
}

// newestBundle is the bundle by the Secret as the API server has it now. Nil means
// that this replica is about to see a newer Secret, and to add to it first.
func (s *certManager) newestBundle(ctx context.Context) ([]byte, error) {
	secret, err := s.client.CoreV1().Secrets(s.options.Namespace).Get(ctx, s.options.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return bundle(s.candidate.issuer, s.trusted), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.secret.key, s.forbidden(err, "get", "secrets", s.options.SecretName))
	}
	next, err := leafFromSecret(secret)
	if err != nil || next.issuer == nil {
		return bundle(s.candidate.issuer, s.trusted), nil
	}
	stored := parseTrusted(secret.Data[secretTrustedKey])
	if len(stored) == 0 {
		stored = s.trusted
	}
	if used := s.inUse(); used != nil && !used.Equal(next.issuer) && !contains(stored, used) {
		return nil, nil
	}
	return bundle(next.issuer, stored), nil
}
