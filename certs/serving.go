package certs

import (
	"crypto/x509"
	"log/slog"
	"sync/atomic"
	"time"
)

// serving has the served leaf, and replaces it when API servers are ready for the next
// leaf. Any goroutine may read the leaf; only the loop uses the rest.
type serving struct {
	served    atomic.Pointer[leaf]
	confirmed confirmations
	settle    time.Duration
	verifier  *verifier
	log       *slog.Logger
	now       func() time.Time

	// rotations counts the leaves that replaced another leaf.
	rotations atomic.Int64
}

// leaf returns the served leaf, or nil.
func (s *serving) leaf() *leaf { return s.served.Load() }

// inUse returns the CA of the served leaf, nil if the leaf has expired, if its CA is
// unknown, or if there is no leaf.
func (s *serving) inUse() *x509.Certificate {
	served := s.leaf()
	if served == nil || expired(served.tls.Leaf, s.now()) {
		return nil
	}
	return served.issuer
}

// observe records whether the staged CA is published now. Call it in every round: the
// settling time starts again after a round in which the CA was not published.
func (s *serving) observe(staged *ca, now time.Time) {
	s.confirmed.observe(staged.cert, s.verifier.published(staged), now)
}

// settled reports whether the CA has been published for the settling time.
func (s *serving) settled(cert *x509.Certificate, now time.Time) bool {
	return s.confirmed.settled(cert, s.settle, now)
}

// offer serves the candidate as soon as API servers are ready for it. Call it in every
// round.
func (s *serving) offer(candidate *leaf) {
	now := s.now()
	accepts := func(l *leaf) bool { return s.verifier.accepts(l, now) }
	s.confirmed.observe(candidate.trustAnchor(), accepts(candidate), now)
	before := s.leaf()
	if before != nil && before.equal(candidate) || !replaces(before, candidate, now, accepts, s.settled(candidate.trustAnchor(), now)) {
		return
	}
	s.served.Store(candidate)
	if before != nil {
		s.rotations.Add(1)
	}
	s.log.Info("serving a new certificate", "expires", timestamp(candidate.tls.Leaf.NotAfter), "issuer", candidate.tls.Leaf.Issuer.String())
}
