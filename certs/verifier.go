package certs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// verifier checks a leaf as API servers do: against the caBundle of every entry that
// calls the Service, as this replica last saw the webhook configurations.
type verifier struct {
	configurations []*configuration
	service        service

	// problems says why a caBundle that does not verify has not been restored.
	problems *problems
}

// verify returns an error that names every configuration and entry by which API
// servers would refuse the leaf. A configuration that is missing, unknown or does not
// call the Service is an error too.
func (v *verifier) verify(l *leaf, now time.Time) error {
	var reasons []string
	for _, c := range v.configurations {
		if err := v.verifyBy(c, l, now); err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %s", c, err))
		}
	}
	if expired(l.tls.Leaf, now) {
		reasons = append(reasons, "the serving certificate ended at "+timestamp(l.tls.Leaf.NotAfter))
	}
	if len(reasons) > 0 {
		return errors.New(strings.Join(reasons, "; "))
	}
	return nil
}

// verifyBy is verify for one configuration. The error names each entry.
func (v *verifier) verifyBy(c *configuration, l *leaf, now time.Time) error {
	r, ok := c.get()
	if !ok {
		if err := c.unknown(); err != nil {
			return err
		}
		return errors.New("not found")
	}
	if len(r.entries) == 0 {
		return fmt.Errorf("none of its entries calls service %s/%s", v.service.namespace, v.service.name)
	}
	var reasons []string
	for _, e := range r.entries {
		if err := l.verify(e.caBundle, v.service.dnsName(), now); err != nil {
			reasons = append(reasons, fmt.Sprintf("entry %s: %s", e.name, err))
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	err := errors.New(strings.Join(reasons, "; "))
	if publishing := v.problems.of(c.String()); publishing != nil {
		err = fmt.Errorf("%w (%w)", err, publishing)
	}
	return err
}

// entries counts the entries that call the Service, and those of them that verify the
// leaf.
func (v *verifier) entries(l *leaf, now time.Time) (calling, verifying int) {
	for _, c := range v.configurations {
		r, ok := c.get()
		if !ok {
			continue
		}
		for _, e := range r.entries {
			calling++
			if l.verify(e.caBundle, v.service.dnsName(), now) == nil {
				verifying++
			}
		}
	}
	return calling, verifying
}

// accepts reports whether every entry that exists verifies the leaf. Configurations
// that are missing or unknown do not count.
func (v *verifier) accepts(l *leaf, now time.Time) bool {
	calling, verifying := v.entries(l, now)
	return calling == verifying && !expired(l.tls.Leaf, now)
}

// published reports whether every configuration that exists trusts the CA. It reports
// false while a configuration is unknown.
func (v *verifier) published(c *ca) bool {
	for _, configuration := range v.configurations {
		r, ok := configuration.get()
		if ok && !r.publishes(c.cert) || !ok && configuration.unknown() != nil {
			return false
		}
	}
	return true
}
