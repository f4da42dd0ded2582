package certs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SelfSignedOptions are the options of [NewSelfSigned].
type SelfSignedOptions struct {
	Options

	// SecretName is the Secret that holds the CA. It is made when it is absent.
	SecretName string

	// SecretGiven means that the Secret is created by somebody else, empty, and that the
	// process has no permission to create it. An absent Secret is then a problem.
	SecretGiven bool

	// CADuration is how long a new CA is valid. A CA is replaced when a third of its validity
	// is left.
	CADuration time.Duration

	// LeafDuration is how long a serving certificate is valid. It is less than CADuration. A
	// leaf is replaced when a third of its validity is left.
	LeafDuration time.Duration
}

// permissions returns the permissions that the provider needs.
func (o *SelfSignedOptions) permissions() []permission {
	verbs := []string{"get", "list", "watch", "update"}
	if !o.SecretGiven {
		verbs = append(verbs, "create")
	}
	return append(
		secretPermissions(o.Namespace, o.SecretName, "certs.provider=self-signed", verbs...),
		configurationPermissions(o.WebhookConfigurations, "certs.provider=self-signed", "list", "watch", "patch")...)
}

// selfSigned is the provider that signs its own leaves, by the CA of a Secret.
type selfSigned struct {
	parts
	options SelfSignedOptions
	secret  *caSecret

	// candidate is the newest leaf. It may have to wait before it is served.
	candidate *leaf
}

// NewSelfSigned returns the self-signed provider's source. The API server is not called before
// Run.
func NewSelfSigned(o SelfSignedOptions) *Source {
	s := newSource(o.Options, o.permissions())
	cache := newSecretCache(o.Client, o.Namespace, o.SecretName, s.changed.Wake)
	secret := &caSecret{parts: s.parts, options: o, secret: cache, creations: &s.creations}
	s.provider = &selfSigned{parts: s.parts, options: o, secret: secret}
	s.watches = append(s.watches, cache.run)
	return s
}

// subjectLeaf is the object of problems with signing.
const subjectLeaf = "serving certificate"

// newest implements provider: it brings the Secret and the published bundle one step
// further, and then signs.
func (s *selfSigned) newest(ctx context.Context) *leaf {
	cache := s.secret.secret
	if cache.unknown() != nil {
		return nil
	}
	s.problems.record(subject(cache), failedSecret, s.secret.reconcile(ctx))
	if s.secret.lastGood.current == nil {
		return nil
	}
	s.publisher.publish(ctx, s.secret)
	s.problems.record(subjectLeaf, failedSign, s.renew())
	return s.candidate
}

// missing implements provider.
func (s *selfSigned) missing() error {
	cache := s.secret.secret
	for _, err := range []error{cache.unknown(), s.problems.get(subject(cache)), s.problems.get(subjectLeaf)} {
		if err != nil {
			return fmt.Errorf("secret %s: %w", cache.key, err)
		}
	}
	if _, ok := cache.get(); !ok && !s.options.SecretGiven {
		return fmt.Errorf("secret %s: not found; the first replica with the permission creates it", cache.key)
	}
	return errors.New("the certificate is being signed")
}

// renew signs the next leaf if one is needed.
func (s *selfSigned) renew() error {
	current, now := s.secret.lastGood.current, s.options.Now()
	if s.candidate != nil && !s.candidate.needsRenewal(current, now) {
		return nil
	}
	next, err := current.sign(s.options.service().dnsNames(), now, s.options.LeafDuration)
	if err != nil {
		return err
	}
	s.candidate = next
	return nil
}
