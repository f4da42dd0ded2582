package certs

import (
	"crypto/x509"
	"sync/atomic"
	"time"
)

// serving holds the leaf that is served, and replaces it when API servers are ready
// for the next one. Any goroutine may read the leaf; only the loop uses the rest.
type serving struct {
	options        *Options
	configurations *configurations
	confirmed      confirmations

	// revoked are the revoked CAs. A leaf of such a CA is replaced soon.
	revoked revocations

	served atomic.Pointer[leaf]

	// rotations counts the leaves that replaced another leaf, handovers those of them
	// that another CA signed.
	rotations, handovers atomic.Int64
}

// leaf returns the served leaf, nil while there is none.
func (s *serving) leaf() *leaf { return s.served.Load() }

// inUse returns the CA of the served leaf, nil if the leaf has expired, if its CA is
// unknown, or if there is no leaf.
func (s *serving) inUse() *x509.Certificate {
	served := s.leaf()
	if served == nil || expired(served.tls.Leaf, s.options.Now()) {
		return nil
	}
	return served.issuer
}

// offer gives the newest leaf. The leaf is served as soon as API servers are ready for
// it; offer is called in every round until then.
func (s *serving) offer(candidate *leaf) {
	now, served, settle := s.options.Now(), s.leaf(), s.options.Settle
	verifies := func(l *leaf) bool { return s.configurations.judge(l, now).accepts() }
	s.confirmed.observe(candidate.trustAnchor(), verifies(candidate), now)
	if served != nil && s.revoked.has(served.issuer) {
		settle = min(settle, revokedSettle)
	}
	settled := func(l *leaf) bool { return s.confirmed.settled(l.trustAnchor(), settle, now) }
	if !replaces(served, candidate, now, verifies, settled) {
		return
	}
	s.served.Store(candidate)
	otherCA := served != nil && !served.trustAnchor().Equal(candidate.trustAnchor())
	if otherCA {
		s.handovers.Add(1)
	}
	if served != nil {
		s.rotations.Add(1)
	}
	s.options.Logger.Info("serving a new certificate", "expires", timestamp(candidate.tls.Leaf.NotAfter), "otherCA", otherCA)
}

// replaces reports whether candidate should be served instead of served. verifies reports
// whether the published bundles verify a leaf; settled reports whether they have contained
// the leaf's CA for the settling time.
func replaces(served, candidate *leaf, now time.Time, verifies, settled func(*leaf) bool) bool {
	switch {
	case served == nil:
		return true
	case served.same(candidate):
		return false
	case ending(served.tls.Leaf, now): // no valid leaf can be lost
		return true
	case !verifies(candidate):
		return false
	case served.issuer != nil && candidate.issuer != nil && served.issuer.Equal(candidate.issuer):
		return true
	}
	return !verifies(served) || settled(candidate)
}

// confirmations hold, by CA, the time since which this replica has seen the CA published
// in every entry of every configuration without a break. Only the loop uses them.
type confirmations map[Fingerprint]time.Time

// observe notes whether the CA is published now. Call it in every round: the settling time
// starts again after a round in which the CA was not published.
func (c confirmations) observe(cert *x509.Certificate, published bool, now time.Time) {
	key := FingerprintOf(cert)
	if _, known := c[key]; !published {
		delete(c, key)
	} else if !known {
		c[key] = now
	}
}

// settled reports whether the CA has been published for the time settle.
func (c confirmations) settled(cert *x509.Certificate, settle time.Duration, now time.Time) bool {
	since, ok := c[FingerprintOf(cert)]
	return ok && now.Sub(since) >= settle
}
