package certs

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// verdict says whether API servers can verify a leaf: against the caBundle of every entry
// that calls the Service, as this replica last saw the webhook configurations.
type verdict struct {
	configurations []ConfigurationStatus

	// calling counts the entries that call the Service, verifying those of them that
	// verify the leaf. Configurations that are missing or unknown have none.
	calling, verifying int

	// expired reports whether the leaf has ended.
	expired bool
}

// judge returns the verdict on a leaf; l is nil if there is none.
func (c *configurations) judge(l *leaf, now time.Time) verdict {
	v := verdict{expired: l != nil && expired(l.tls.Leaf, now)}
	for _, configuration := range c.list {
		err := errors.New("there is no serving certificate yet")
		if l != nil {
			var calling, failing int
			calling, failing, err = c.judgeOne(configuration, l, now)
			v.calling += calling
			v.verifying += calling - failing
		}
		v.configurations = append(v.configurations, ConfigurationStatus{configuration.WebhookConfiguration, err})
	}
	return v
}

// judgeOne counts the entries of one configuration that call the Service, and those of them
// that fail to verify the leaf. The error names each of these. A configuration that is
// missing, unknown or does not call the Service is an error too.
func (c *configurations) judgeOne(configuration *configuration, l *leaf, now time.Time) (calling, failing int, err error) {
	r, ok := configuration.get()
	if !ok {
		if err := configuration.unknown(); err != nil {
			return 0, 0, err
		}
		return 0, 0, errors.New("not found")
	}
	service := c.options.service()
	if len(r.entries) == 0 {
		return 0, 0, fmt.Errorf("none of its entries calls service %s/%s", service.namespace, service.name)
	}
	var reasons []error
	for _, e := range r.entries {
		if err := l.verify(e.caBundle, service.dnsName(), now); err != nil {
			reasons = append(reasons, fmt.Errorf("entry %s: %w", e.name, err))
		}
	}
	err = joined(reasons...)
	if publishing := c.problems.of(configuration.String()); err != nil && publishing != nil {
		err = fmt.Errorf("%w (%w)", err, publishing)
	}
	return len(r.entries), len(reasons), err
}

// accepts reports whether every entry that exists verifies the leaf.
func (v verdict) accepts() bool { return v.calling == v.verifying && !v.expired }

// err names every configuration and entry by which API servers would refuse the leaf.
func (v verdict) err() error {
	var reasons []error
	for _, c := range v.configurations {
		if c.Err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", c, c.Err))
		}
	}
	return joined(reasons...)
}

// logChanges logs which configurations have ceased to verify the served leaf since the verdict
// before, and which verify it again: the replica may stay ready all the time.
func (v verdict) logChanges(before verdict, log *slog.Logger) {
	for i, c := range v.configurations {
		switch failed := before.configurations[i].Err != nil; {
		case c.Err != nil && !failed:
			log.Warn("API servers that follow this configuration cannot verify the serving certificate", "object", c.String(), "error", c.Err)
		case c.Err == nil && failed:
			log.Info("API servers that follow this configuration can verify the serving certificate again", "object", c.String())
		}
	}
}
