package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// leaf is a serving certificate with its CA.
type leaf struct {
	// tls has its Leaf set.
	tls *tls.Certificate

	// issuer is nil when the CA is unknown to this process.
	issuer *x509.Certificate
}

func (l *leaf) same(other *leaf) bool {
	return l == other || bytes.Equal(l.tls.Leaf.Raw, other.tls.Leaf.Raw)
}

// trustAnchor is what is remembered of the leaf's CA: the CA itself or, when it is
// unknown, the leaf.
func (l *leaf) trustAnchor() *x509.Certificate {
	if l.issuer != nil {
		return l.issuer
	}
	return l.tls.Leaf
}

// parseLeaf reads a certificate chain and its key from PEM.
func parseLeaf(certPEM, keyPEM []byte) (*leaf, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	return &leaf{tls: &pair}, nil
}

// verify says why an API server that trusts caBundle would refuse the
// certificate for dnsName at the time now; nil if it would not.
func (l *leaf) verify(caBundle []byte, dnsName string, now time.Time) error {
	if len(caBundle) == 0 {
		return errors.New("its caBundle is empty")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		return errors.New("its caBundle holds no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, der := range l.tls.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(cert)
		}
	}
	_, err := l.tls.Leaf.Verify(x509.VerifyOptions{
		DNSName:       dnsName,
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("its caBundle does not verify the serving certificate: %w", err)
	}
	return nil
}

// ending is whether so little of the certificate's validity is left that a
// replacement should not be held back any longer.
func ending(cert *x509.Certificate, now time.Time) bool {
	left := cert.NotAfter.Sub(now)
	return left < min(time.Minute, cert.NotAfter.Sub(cert.NotBefore)/10)
}
