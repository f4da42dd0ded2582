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
	// tls is the certificate with its chain and key. Its field Leaf is set.
	tls *tls.Certificate

	// issuer is the CA; nil if this process does not know the CA.
	issuer *x509.Certificate
}

// equal reports whether both are the same certificate.
func (l *leaf) equal(other *leaf) bool {
	return l == other || bytes.Equal(l.tls.Leaf.Raw, other.tls.Leaf.Raw)
}

// trustAnchor returns the certificate that stands for the leaf's CA: the CA, or the leaf
// itself if the CA is unknown.
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

// verify returns the reason why an API server that trusts caBundle would refuse the leaf
// for dnsName at the time now; nil if it would accept the leaf.
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

// ending reports whether the certificate ends so soon that its replacement must not wait
// any longer.
func ending(cert *x509.Certificate, now time.Time) bool {
	left := cert.NotAfter.Sub(now)
	return left < min(time.Minute, cert.NotAfter.Sub(cert.NotBefore)/10)
}

// needsRenewal reports whether a new leaf is needed, signed by the CA current.
func (l *leaf) needsRenewal(current *ca, now time.Time) bool {
	cert := l.tls.Leaf
	if !l.issuer.Equal(current.cert) || now.Before(cert.NotBefore) || expired(cert, now) {
		return true
	}
	// A leaf that ends with its CA is not renewed: the new leaf would end at the same time.
	return due(cert, now) && cert.NotAfter.Before(current.cert.NotAfter)
}
