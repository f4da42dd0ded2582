package certs

import (
	"crypto/x509"
	"time"
)

// confirmations hold, by CA, the time since which this replica has seen the CA published
// in every entry of every configuration without a break. Only one goroutine uses them.
type confirmations map[string]time.Time

// observe records whether the CA is published now.
func (c confirmations) observe(cert *x509.Certificate, published bool, now time.Time) {
	key := string(cert.Raw)
	_, known := c[key]
	switch {
	case !published:
		delete(c, key)
	case !known:
		c[key] = now
	}
}

// settled reports whether the CA has been published for the time settle.
func (c confirmations) settled(cert *x509.Certificate, settle time.Duration, now time.Time) bool {
	since, ok := c[string(cert.Raw)]
	return ok && now.Sub(since) >= settle
}

// forget drops the expired CAs.
func (c confirmations) forget(now time.Time) {
	for key := range c {
		if cert, err := x509.ParseCertificate([]byte(key)); err != nil || expired(cert, now) {
			delete(c, key)
		}
	}
}

// replaces reports whether candidate should be served instead of served. verifies reports whether
// the published bundles verify a leaf. settled reports whether they have contained the
// candidate's CA for the settling time.
func replaces(served, candidate *leaf, now time.Time, verifies func(*leaf) bool, settled bool) bool {
	// No valid leaf can be lost.
	if served == nil || ending(served.tls.Leaf, now) {
		return true
	}
	if !verifies(candidate) {
		return false
	}
	if served.issuer != nil && candidate.issuer != nil && served.issuer.Equal(candidate.issuer) {
		return true
	}
	return !verifies(served) || settled
}
