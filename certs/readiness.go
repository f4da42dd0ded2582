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
	served := r.serving.leaf()
	if served == nil || !r.verified.Load() {
		return
	}
	now := r.now()
	for _, c := range r.verifier.configurations {
		err := r.verifier.verifyBy(c, served, now)
		before := r.unverifiable[c.WebhookConfiguration]
		r.unverifiable[c.WebhookConfiguration] = err != nil
		switch {
		case err != nil && !before:
			r.log.Warn("API servers that follow this configuration cannot verify the serving certificate", "object", c.String(), "error", err)
		case err == nil && before:
			r.log.Info("API servers that follow this configuration can verify the serving certificate again", "object", c.String())
		}
	}
}

// configurations returns the state of every configuration, for Source.Status.
func (r *readiness) configurations() []ConfigurationStatus {
	served, now := r.serving.leaf(), r.now()
	var all []ConfigurationStatus
	for _, c := range r.verifier.configurations {
		err := errors.New("there is no serving certificate yet")
		if served != nil {
			err = r.verifier.verifyBy(c, served, now)
		}
		all = append(all, ConfigurationStatus{c.WebhookConfiguration, err})
	}
	return all
}
