package certs

import (
	"errors"
	"fmt"
	"time"
)

// Ready returns nil if the replica belongs in the Service: API servers can verify the served
// certificate. Otherwise the error names the missing part and its object. After the first nil,
// Ready returns an error only if the certificate has expired, or if entries call the Service and
// none of them verifies the certificate. Metrics report the other problems.
//
// An API server that cannot be reached changes nothing: a replica that is cut off
// still serves its leaf.
func (s *Source) Ready() error {
	if err := s.problems.get(subjectStart); err != nil {
		return err
	}
	served := s.serving.leaf()
	if served == nil {
		return fmt.Errorf("no serving certificate yet: %w", s.provider.missing())
	}
	now := s.now()
	err := s.verifier.verify(served, now)
	if err == nil {
		s.verified.Store(true)
		return nil
	}
	if s.verified.Load() && s.useful(served, now) {
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
func (s *Source) useful(l *leaf, now time.Time) bool {
	calling, verifying := s.verifier.entries(l, now)
	return !expired(l.tls.Leaf, now) && (verifying > 0 || calling == 0)
}

// logChanges logs when a configuration that verified the served leaf ceases to, and
// when it verifies the leaf again: the replica may stay ready all the time.
func (s *Source) logChanges() {
	if !s.verified.Load() {
		return
	}
	for c, err := range s.configurations() {
		before := s.unverifiable[c]
		s.unverifiable[c] = err != nil
		switch {
		case err != nil && !before:
			s.log.Warn("API servers that follow this configuration cannot verify the serving certificate", "object", c.String(), "error", err)
		case err == nil && before:
			s.log.Info("API servers that follow this configuration can verify the serving certificate again", "object", c.String())
		}
	}
}

// configurations returns, by configuration, the reason why API servers that follow it cannot
// verify the served leaf, or nil if they can.
func (s *Source) configurations() map[WebhookConfiguration]error {
	all := map[WebhookConfiguration]error{}
	if served := s.serving.leaf(); served != nil {
		for _, j := range s.verifier.verdicts(served, s.now()) {
			all[j.WebhookConfiguration] = j.err
		}
		return all
	}
	for _, c := range s.verifier.configurations {
		all[c.WebhookConfiguration] = errors.New("there is no serving certificate yet")
	}
	return all
}
