package certs

import (
	"sync/atomic"
	"time"
)

// handover decides which leaf is served. Only one goroutine offers leaves; any
// number may read the one that is served.
type handover struct {
	// settle is how long a new CA must have been confirmed before its leaf is
	// served: API servers do not all see a configuration at the same moment, and
	// a CA made just now is not yet valid on a clock that is behind.
	settle time.Duration

	served atomic.Pointer[leaf]

	// confirmed is since when the offered leaf's CA has been seen published
	// without a break; zero when it is not.
	confirmed time.Time
}

// offer says that candidate is the newest leaf. verifies says whether the
// published bundles, as last seen, verify a leaf. It returns whether candidate
// took the place of the leaf that was served before.
func (h *handover) offer(candidate *leaf, now time.Time, verifies func(*leaf) bool) bool {
	served := h.served.Load()
	if served != nil && served.tls == candidate.tls {
		return false
	}
	if !h.due(served, candidate, now, verifies) {
		return false
	}
	h.confirmed = time.Time{}
	h.served.Store(candidate)
	return true
}

func (h *handover) due(served, candidate *leaf, now time.Time, verifies func(*leaf) bool) bool {
	// Nothing can be lost by a change when there is nothing (valid) to serve.
	if served == nil || ending(served.tls.Leaf, now) {
		return true
	}
	if !verifies(candidate) {
		h.confirmed = time.Time{}
		return false
	}
	if h.confirmed.IsZero() {
		h.confirmed = now
	}
	sameCA := served.issuer != nil && candidate.issuer != nil && served.issuer.Equal(candidate.issuer)
	if sameCA || !verifies(served) {
		return true
	}
	return now.Sub(h.confirmed) >= h.settle
}
