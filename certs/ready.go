package certs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Ready is nil when the leaf that is served now verifies for the Service's name
// against the caBundle of every entry of every configuration, as last seen.
//
// An API server that cannot be reached changes nothing in that: a replica that
// is cut off still serves what it served.
func (s *SelfSigned) Ready() error {
	if err := s.problem("start"); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	served := s.handover.served.Load()
	if served == nil {
		return fmt.Errorf("certificates: no serving certificate yet: %w", s.noCA())
	}
	return s.unverified(served, s.now(), true)
}

// noCA says why there is no leaf yet.
func (s *SelfSigned) noCA() error {
	if err := s.secret.unknown(); err != nil {
		return fmt.Errorf("secret %s: %w", s.secret.key, err)
	}
	if err := s.problem(s.secret.key); err != nil {
		return fmt.Errorf("secret %s: %w", s.secret.key, err)
	}
	if _, ok := s.secret.get(); !ok {
		return fmt.Errorf("secret %s: not found; the first replica that may create it does", s.secret.key)
	}
	return errors.New("it is being signed")
}

// unverified says, for each configuration in which the leaf would not be
// verified, why. A configuration that does not exist, or of which nothing is
// known, counts only if all must be there.
func (s *SelfSigned) unverified(l *leaf, now time.Time, all bool) error {
	var problems []string
	for _, c := range s.configurations {
		configuration, ok := c.get()
		var err error
		switch {
		case ok:
			err = s.unverifiedIn(configuration, l, now)
		case !all:
		case c.unknown() != nil:
			err = c.unknown()
		default:
			err = errors.New("not found")
		}
		if err == nil {
			continue
		}
		if publishing := s.problem(c.key); ok && publishing != nil {
			err = fmt.Errorf("%w (%w)", err, publishing)
		}
		problems = append(problems, fmt.Sprintf("mutatingwebhookconfiguration %s: %s", c.key, err))
	}
	if !now.Before(l.tls.Leaf.NotAfter) {
		problems = append(problems, fmt.Sprintf("the serving certificate ended at %s", l.tls.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	}
	if len(problems) > 0 {
		return fmt.Errorf("certificates: %s", strings.Join(problems, "; "))
	}
	return nil
}

// unverifiedIn says in which entry of the configuration the leaf would not be
// verified, and why.
func (s *SelfSigned) unverifiedIn(configuration *admissionv1.MutatingWebhookConfiguration, l *leaf, now time.Time) error {
	for i := range configuration.Webhooks {
		entry := &configuration.Webhooks[i]
		if err := verify(l.tls.Leaf, entry.ClientConfig.CABundle, s.dnsName(), now); err != nil {
			return fmt.Errorf("entry %s: %w", entry.Name, err)
		}
	}
	return nil
}
