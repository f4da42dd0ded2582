package certs

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// readiness decides whether the replica belongs in the Service, and logs when a
// configuration ceases to verify the served leaf.
type readiness struct {
	serving  *serving
	verifier *verifier
	log      *slog.Logger
	now      func() time.Time

	// verified reports whether ready has returned nil before.
	verified atomic.Bool

	// unverifiable are the configurations that do not verify the served leaf, as
	// logged. Only the loop uses it.
	unverifiable map[WebhookConfiguration]bool
}

// ready implements Source.Ready. missing says why there is no leaf yet.
//
// An API server that cannot be reached changes nothing: a replica that is cut off
// still serves its leaf.
func (r *readiness) ready(missing func() error) error {
	served := r.serving.leaf()
	if served == nil {
		return fmt.Errorf("no serving certificate yet: %w", missing())
	}
	now := r.now()
	err := r.verifier.verify(served, now)
	if err == nil {
		r.verified.Store(true)
		return nil
	}
	if r.verified.Load() && r.useful(served, now) {
		return nil
	}
	return err
}

// useful reports whether a replica that was ready stays ready although something is
// missing.
//
// A problem of one configuration is the same for every replica. If all replicas left
// the Service because of it, the other configurations, which still verify them, would
// reach no replica: pods would be refused, or admitted without sidecars. So a replica
// leaves only when some entries call it and none of them verifies its leaf.
func (r *readiness) useful(l *leaf, now time.Time) bool {
	calling, verifying := r.verifier.entries(l, now)
	return !expired(l.tls.Leaf, now) && (verifying > 0 || calling == 0)
}

// logChanges logs when a configuration that verified the served leaf ceases to, and
// when it verifies the leaf again: the replica may stay ready all the time.
func (r *readiness) logChanges() {
	if !r.verified.Load() {
		return
	}
	for c, err := range r.configurations() {
		before := r.unverifiable[c]
		r.unverifiable[c] = err != nil
		switch {
		case err != nil && !before:
			r.log.Warn("API servers that follow this configuration cannot verify the serving certificate", "object", c.String(), "error", err)
		case err == nil && before:
			r.log.Info("API servers that follow this configuration can verify the serving certificate again", "object", c.String())
		}
	}
}

// configurations returns why API servers that follow a configuration cannot verify the served
// leaf, nil if they can.
func (r *readiness) configurations() map[WebhookConfiguration]error {
	all := map[WebhookConfiguration]error{}
	if served := r.serving.leaf(); served != nil {
		for _, j := range r.verifier.judge(served, r.now()) {
			all[j.WebhookConfiguration] = j.err
		}
		return all
	}
	for _, c := range r.verifier.configurations {
		all[c.WebhookConfiguration] = errors.New("there is no serving certificate yet")
	}
	return all
}
