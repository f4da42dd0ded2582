package certs

import (
	"crypto/x509"
	"sync/atomic"
	"time"
)

// confirmations tell since when each CA has been seen published in every entry of
// every configuration, without a break. Only one goroutine uses them.
type confirmations map[string]time.Time

// observe takes note of whether the CA is published now.
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

// settled is whether the CA has been published for the time settle.
func (c confirmations) settled(cert *x509.Certificate, settle time.Duration, now time.Time) bool {
	since, ok := c[string(cert.Raw)]
	return ok && now.Sub(since) >= settle
}

// forget drops the CAs that ended.
func (c confirmations) forget(now time.Time) {
	for key := range c {
		if cert, err := x509.ParseCertificate([]byte(key)); err != nil || expired(cert, now) {
			delete(c, key)
		}
	}
}

// handover decides which leaf is served. Only one goroutine offers leaves; any
// number may read the one that is served.
type handover struct {
	served atomic.Pointer[leaf]
}

// offer says that candidate is the newest leaf. verifies says whether the
// published bundles, as last seen, verify a leaf; settled, whether they have
// done so for the candidate's CA for the settling time. It returns whether
// candidate took the place of the leaf that was served before.
func (h *handover) offer(candidate *leaf, now time.Time, verifies, settled func(*leaf) bool) bool {
	served := h.served.Load()
	if served != nil && served.same(candidate) || !replaces(served, candidate, now, verifies, settled) {
		return false
	}
	h.served.Store(candidate)
	return true
}

// replaces is whether it is time to serve candidate in place of served.
func replaces(served, candidate *leaf, now time.Time, verifies, settled func(*leaf) bool) bool {
	// Nothing can be lost by a change when there is nothing (valid) to serve.
	if served == nil || ending(served.tls.Leaf, now) {
		return true
	}
	if !verifies(candidate) {
		return false
	}
	if served.issuer != nil && candidate.issuer != nil && served.issuer.Equal(candidate.issuer) {
		return true
	}
	return !verifies(served) || settled(candidate)
}
