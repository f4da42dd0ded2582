package certs

import (
	"cmp"
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

	// problems has the reason why a caBundle that does not verify has not been restored.
	problems *problems
}

// verdict is the result of a leaf's verification by the entries of one configuration.
type verdict struct {
	WebhookConfiguration

	// calling counts the entries that call the Service. verifying counts those of them that
	// verify the leaf.
	calling, verifying int

	// err names each entry by which API servers would refuse the leaf. A configuration that is
	// missing, unknown or does not call the Service is an error too.
	err error
}

// verdicts returns the verdict of each configuration.
func (v *verifier) verdicts(l *leaf, now time.Time) []verdict {
	byBundle := map[string]error{} // nearly always all entries have the same caBundle
	verify := func(caBundle []byte) error {
		err, ok := byBundle[string(caBundle)]
		if !ok {
			err = l.verify(caBundle, v.service.dnsName(), now)
			byBundle[string(caBundle)] = err
		}
		return err
	}
	var all []verdict
	for _, c := range v.configurations {
		j := verdict{WebhookConfiguration: c.WebhookConfiguration}
		r, ok := c.get()
		switch {
		case !ok:
			j.err = cmp.Or(c.unknown(), errors.New("not found"))
		case len(r.entries) == 0:
			j.err = fmt.Errorf("none of its entries calls service %s/%s", v.service.namespace, v.service.name)
		default:
			j.calling = len(r.entries)
			var reasons []string
			for _, e := range r.entries {
				if err := verify(e.caBundle); err != nil {
					reasons = append(reasons, fmt.Sprintf("entry %s: %s", e.name, err))
				}
			}
			j.verifying = j.calling - len(reasons)
			if len(reasons) > 0 {
				j.err = errors.New(strings.Join(reasons, "; "))
				if publishing := v.problems.get(c.String()); publishing != nil {
					j.err = fmt.Errorf("%w (%w)", j.err, publishing)
				}
			}
		}
		all = append(all, j)
	}
	return all
}

// verify returns an error that names every configuration and entry by which API servers would
// refuse the leaf.
func (v *verifier) verify(l *leaf, now time.Time) error {
	var reasons []string
	for _, j := range v.verdicts(l, now) {
		if j.err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %s", j.WebhookConfiguration, j.err))
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

// entries counts the entries that call the Service, and those of them that verify the
// leaf.
func (v *verifier) entries(l *leaf, now time.Time) (calling, verifying int) {
	for _, j := range v.verdicts(l, now) {
		calling, verifying = calling+j.calling, verifying+j.verifying
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
