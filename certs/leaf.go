package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// leaf is a serving certificate with its CA.
type leaf struct {
	// tls is the certificate with its chain and key. Its field Leaf is set.
	tls *tls.Certificate

	// issuer is the CA; nil if this process does not know the CA.
	issuer *x509.Certificate

	// accepted has what verify found, by what it was asked. Readiness asks several times a
	// second for every entry, and to verify each time would be most of what a Pillion at rest
	// computes.
	mu       sync.Mutex
	accepted map[accepting]window
}

// accepting is what a leaf was verified by.
type accepting struct{ caBundle, dnsName string }

// window is how long a chain of certificates is valid: from is the latest NotBefore in it,
// until the first NotAfter.
type window struct{ from, until time.Time }

func (w window) includes(t time.Time) bool { return !t.Before(w.from) && !t.After(w.until) }

func windowOf(chain []*x509.Certificate) window {
	w := window{chain[0].NotBefore, chain[0].NotAfter}
	for _, c := range chain[1:] {
		if c.NotBefore.After(w.from) {
			w.from = c.NotBefore
		}
		if c.NotAfter.Before(w.until) {
			w.until = c.NotAfter
		}
	}
	return w
}

// mostAccepted bounds what a leaf remembers. Configurations have one or two bundles at a
// time.
const mostAccepted = 16

// same reports whether both are the same certificate.
func (l *leaf) same(other *leaf) bool {
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
	by := accepting{string(caBundle), dnsName}
	l.mu.Lock()
	valid, known := l.accepted[by]
	l.mu.Unlock()
	if known && valid.includes(now) {
		return nil
	}
	chain, err := l.chain(caBundle, dnsName, now)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepted == nil || len(l.accepted) >= mostAccepted {
		l.accepted = map[accepting]window{}
	}
	l.accepted[by] = windowOf(chain)
	return nil
}

// chain returns the certificates by which an API server that trusts caBundle accepts the leaf.
func (l *leaf) chain(caBundle []byte, dnsName string, now time.Time) ([]*x509.Certificate, error) {
	if len(caBundle) == 0 {
		return nil, errors.New("its caBundle is empty")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		return nil, errors.New("its caBundle holds no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, der := range l.tls.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(cert)
		}
	}
	chains, err := l.tls.Leaf.Verify(x509.VerifyOptions{
		DNSName:       dnsName,
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("its caBundle does not verify the serving certificate: %w", err)
	}
	return chains[0], nil
}

// ending reports whether the certificate ends so soon that its replacement must not wait
// any longer.
func ending(cert *x509.Certificate, now time.Time) bool {
	left := cert.NotAfter.Sub(now)
	return left < min(time.Minute, cert.NotAfter.Sub(cert.NotBefore)/10)
}

// outlived reports whether a new leaf is needed, signed by the CA current.
func (l *leaf) outlived(current *ca, now time.Time) bool {
	cert := l.tls.Leaf
	if !l.issuer.Equal(current.cert) || now.Before(cert.NotBefore) || expired(cert, now) {
		return true
	}
	// A new leaf would not last longer than one that ends with its CA.
	return due(cert, now) && cert.NotAfter.Before(current.cert.NotAfter)
}
