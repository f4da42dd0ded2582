package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SelfSignedOptions are the options of [NewSelfSigned]. All fields are required but
// SecretGiven.
type SelfSignedOptions struct {
	Options

	// SecretName is the Secret that holds the CA. It is made when it is absent.
	SecretName string

	// SecretGiven says that somebody else makes the Secret, empty, and that the process has
	// no permission to make one. An absent Secret is then a problem.
	SecretGiven bool

	// CADuration is how long a new CA is valid. A CA is replaced when a third of its
	// validity is left.
	CADuration time.Duration

	// LeafDuration is how long a serving certificate is valid. It is less than CADuration.
	// A leaf is replaced when a third of its validity is left.
	LeafDuration time.Duration

	// KeyAlgorithm is the algorithm of new keys. An existing CA keeps its key until it is
	// replaced.
	KeyAlgorithm KeyAlgorithm
}

// permissions returns the permissions that the provider needs.
func (o *SelfSignedOptions) permissions() []permission {
	verbs := []string{"get", "list", "watch", "update"}
	if !o.SecretGiven {
		verbs = append(verbs, "create")
	}
	return append(
		secretPermissions(o.Namespace, o.SecretName, "certs.secretName", verbs...),
		configurationPermissions(o.WebhookConfigurations, "certs.provider=self-signed", "list", "watch", "patch")...)
}

// selfSigned is the provider that signs its own leaves, by the CA of a Secret.
type selfSigned struct {
	*store
	options SelfSignedOptions

	// candidate is the newest leaf. It may have to wait before it is served.
	candidate *leaf
}

// NewSelfSigned returns the self-signed provider's source. The API server is not called
// before Run.
func NewSelfSigned(o SelfSignedOptions) Source { return newSelfSigned(o) }

func newSelfSigned(o SelfSignedOptions) *source {
	s := newSource(o.Options, ProviderStatus{Name: "self-signed", Secret: o.SecretName, Publishes: true}, o.permissions())
	s.provider = &selfSigned{store: newStore(s, o.SecretName, readAuthorities), options: o}
	return s
}

// subjectLeaf is the object of problems with signing.
const subjectLeaf = "serving certificate"

// newest implements provider. The Secret comes before the published bundle, so that no
// replica publishes a bundle without the CA of a leaf in use.
func (s *selfSigned) newest(ctx context.Context) *leaf {
	if s.secret.unknown() != nil {
		return nil
	}
	s.problems.note(s.subject(), failedSecret, s.handOver(ctx))
	if s.known.current == nil {
		return nil
	}
	s.configurations.publish(ctx, s.store)
	s.problems.note(subjectLeaf, failedSign, s.renew())
	return s.candidate
}

// missing implements provider.
func (s *selfSigned) missing() error {
	for _, err := range []error{s.secret.unknown(), s.problems.of(s.subject()), s.problems.of(subjectLeaf)} {
		if err != nil {
			return fmt.Errorf("secret %s: %w", s.secret.key, err)
		}
	}
	if _, ok := s.secret.get(); !ok && !s.options.SecretGiven {
		return fmt.Errorf("secret %s: not found; the first replica with the permission creates it", s.secret.key)
	}
	return errors.New("the certificate is being signed")
}

// trust implements provider.
func (s *selfSigned) trust() authorities { return s.known }

// handOver takes the next step of the hand-over in the Secret. It waits for nothing: a write
// that comes too late is followed by an event, which brings the next round.
func (s *selfSigned) handOver(ctx context.Context) error {
	now, remembered := s.options.Now(), s.known
	secret, stored, broken := s.look(now)
	if stored.next != nil {
		s.serving.confirmed.observe(stored.next.cert, s.configurations.trust(stored.next.cert), now)
	}
	var made []*ca
	want, err := stored.step(circumstances{
		now: now, remembered: remembered, inUse: s.serving.inUse(), keep: s.options.keep(s.options.LeafDuration),
		settled: func(cert *x509.Certificate) bool {
			return s.serving.confirmed.settled(cert, s.options.Settle, now)
		},
		make: func() (*ca, error) {
			own, err := makeCA(s.options.KeyAlgorithm, s.options.service().dnsNames(), now, s.options.CADuration)
			if err == nil {
				made = append(made, own)
			}
			return own, err
		},
	})
	if err != nil || secret != nil && broken == nil && stored.same(want) {
		return err
	}
	written, err := s.write(ctx, secret, want)
	if err != nil {
		return errors.Join(broken, err)
	}
	if written {
		log := s.options.Logger
		if broken != nil && (len(secret.Data) > 0 || remembered.current != nil) {
			log.Warn("the CA's secret is damaged; it is made again", "secret", s.secret.key, "damage", broken)
		}
		for _, own := range made {
			s.trusted.own(own)
		}
		log.Info("wrote the CA's secret", "secret", s.secret.key, "made", len(made), "staged", want.next != nil, "promoted", stored.current != nil && !stored.current.is(want.current.cert))
	}
	return nil
}

// write writes the authorities into the Secret, or creates the Secret if it is nil. It
// returns false if another write came first.
func (s *selfSigned) write(ctx context.Context, secret *corev1.Secret, want authorities) (bool, error) {
	switch {
	case secret != nil && s.options.SecretGiven:
		// Helm deletes what a release has no more. Somebody may have made this Secret
		// again by hand, and the chart renders none that another one made.
		secret = secret.DeepCopy()
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "helm.sh/resource-policy", "keep")
		return s.update(ctx, secret, want)
	case secret != nil:
		return s.update(ctx, secret, want)
	case s.options.SecretGiven:
		return false, fmt.Errorf("the secret does not exist, and rbac.createSecrets=false takes the permission to make it: kubectl -n %s create secret generic %s", s.options.Namespace, s.name)
	}
	data, err := want.write(nil)
	if err != nil {
		return false, err
	}
	result, err := s.options.Client.Secrets(s.options.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.options.Namespace, Name: s.name,
		Labels: map[string]string{"app.kubernetes.io/name": "pillion", "app.kubernetes.io/component": "certificate-authority"},
	}, Data: data}, metav1.CreateOptions{FieldManager: fieldManager})
	return s.written("create", nil, result, want, err)
}

// renew signs the next leaf if one is needed.
func (s *selfSigned) renew() error {
	current, now := s.known.current, s.options.Now()
	if s.candidate != nil && !s.candidate.outlived(current, now) {
		return nil
	}
	next, err := current.sign(s.options.KeyAlgorithm, s.options.service().dnsNames(), now, s.options.LeafDuration)
	if err != nil {
		return err
	}
	s.candidate = next
	return nil
}
