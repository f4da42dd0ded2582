package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// SelfSignedOptions are the options of [NewSelfSigned]. Durations that are zero
// take their default.
type SelfSignedOptions struct {
	Options

	// SecretName is the Secret that holds the CA. It is made when it is absent.
	SecretName string

	// CADuration is how long a new CA is valid (default 8760h, a year). It is
	// replaced when a third of that is left.
	CADuration time.Duration

	// LeafDuration is how long a serving certificate is valid (default 168h, a
	// week), less than CADuration. It is replaced when a third of that is left.
	LeafDuration time.Duration

	// KeyAlgorithm is the kind of new keys (default ECDSA). A CA that is there
	// keeps its key until it is replaced.
	KeyAlgorithm KeyAlgorithm
}

// selfSigned is the [Source] whose CA lives in a Secret that all replicas share.
type selfSigned struct {
	*serving
	options SelfSignedOptions
	secret  *followed[*corev1.Secret]

	// authorities are what the Secret held when it was last sound. They stay in
	// force while the Secret is absent or broken.
	authorities authorities

	// candidate is the newest leaf, which may have to wait for being served.
	candidate *leaf

	// wrote is the last write to the Secret, until it is seen.
	wrote write
}

// write is a write to the Secret that took the place of one version of it ("" for
// none).
type write struct {
	over string
	at   time.Time
}

// NewSelfSigned prepares the provider. The error names the option that is
// missing or wrong; nothing is asked of the API server before Run.
func NewSelfSigned(o SelfSignedOptions) (Source, error) {
	client, err := o.open("self-signed certificates", o.complete)
	if err != nil {
		return nil, err
	}
	return newSelfSigned(o, client, time.Now)
}

func (o *SelfSignedOptions) complete() error {
	if err := o.Options.complete(); err != nil {
		return err
	}
	if err := required("SecretName", o.SecretName); err != nil {
		return err
	}
	if o.CADuration == 0 {
		o.CADuration = 365 * 24 * time.Hour
	}
	if o.LeafDuration == 0 {
		o.LeafDuration = defaultLeafDuration
	}
	if o.LeafDuration < 0 || o.CADuration <= o.LeafDuration {
		return fmt.Errorf("CADuration (%s) must be greater than LeafDuration (%s), and both greater than zero", o.CADuration, o.LeafDuration)
	}
	if o.Settle > o.CADuration/4 {
		return fmt.Errorf("the time Settle (%s) must be at most a quarter of CADuration (%s): a CA would end before the next one is in use", o.Settle, o.CADuration)
	}
	switch o.KeyAlgorithm {
	case "":
		o.KeyAlgorithm = ECDSA
	case ECDSA, RSA:
	default:
		return fmt.Errorf("KeyAlgorithm is %q; allowed are %s, %s", o.KeyAlgorithm, ECDSA, RSA)
	}
	return nil
}

func newSelfSigned(o SelfSignedOptions, client kubernetes.Interface, now func() time.Time) (*selfSigned, error) {
	shared, err := newServing(o.Options, client, now)
	if err != nil {
		return nil, err
	}
	s := &selfSigned{serving: shared, options: o}
	s.secret, err = followSecret(client, o.Namespace, o.SecretName, s.changed)
	return s, err
}

// Run makes, publishes and renews certificates until ctx ends.
func (s *selfSigned) Run(ctx context.Context) error {
	const provider = "certs.provider=self-signed"
	permissions := append(
		secretPermissions(s.options.Namespace, s.options.SecretName, "certs.secretName", "get", "list", "watch", "update", "create"),
		configurationPermissions(s.options.WebhookConfigurations, provider, "list", "watch", "patch")...)
	return s.run(ctx, permissions, s.reconcile, s.secret.run)
}

// Ready follows [Source].
func (s *selfSigned) Ready() error { return s.ready(s.noCA) }

// noCA says why there is no leaf yet.
func (s *selfSigned) noCA() error {
	for _, err := range []error{s.secret.unknown(), s.problem(subject(s.secret)), s.problem(subjectLeaf)} {
		if err != nil {
			return fmt.Errorf("secret %s: %w", s.secret.key, err)
		}
	}
	if _, ok := s.secret.get(); !ok {
		return fmt.Errorf("secret %s: not found; the first replica that may create it does", s.secret.key)
	}
	return errors.New("it is being signed")
}

// subjectLeaf is the subject of problems with signing.
const subjectLeaf = "serving certificate"

// reconcile brings the Secret, the published bundle and the served leaf one step
// further. It waits for nothing: a write that was overtaken brings an event, and
// that brings the next step.
func (s *selfSigned) reconcile(ctx context.Context) {
	if s.secret.unknown() != nil {
		return
	}
	s.note(subject(s.secret), failedSecret, s.keepSecret(ctx))
	if s.authorities.current == nil {
		return
	}
	s.publish(ctx, s.authorities.bundle(), s.newestBundle)
	s.note(subjectLeaf, failedSign, s.renew())
	if s.candidate != nil {
		s.offer(s.candidate)
	}
}

// keepSecret reads the Secret, and takes the next step of the hand-over in it.
// This comes before publishing, so that no replica publishes a bundle without the
// CA of a leaf that is in use.
func (s *selfSigned) keepSecret(ctx context.Context) error {
	now := s.now()
	var stored authorities
	var broken error
	version := ""
	secret, exists := s.secret.get()
	if exists {
		version = secret.ResourceVersion
		stored, broken = readAuthorities(secret.Data)
	}
	if s.wrote.pending(version, now) {
		return nil
	}
	remembered := s.authorities
	if stored.current != nil {
		s.authorities = stored.completedBy(remembered)
	}
	s.confirmed.forget(now)
	if stored.next != nil {
		s.confirmed.observe(stored.next.cert, s.published(stored.next), now)
	}
	made := 0
	want, err := stored.step(circumstances{
		now: now, remembered: remembered, inUse: s.inUse(),
		keep:    max(s.settle, 0) + s.options.LeafDuration + backdate(s.options.LeafDuration),
		settled: func(cert *x509.Certificate) bool { return s.confirmed.settled(cert, s.settle, now) },
		make: func() (*ca, error) {
			made++
			return makeCA(s.options.KeyAlgorithm, now, s.options.CADuration)
		},
	})
	if err != nil || exists && broken == nil && stored.same(want) {
		return err
	}
	if exists && broken != nil {
		s.log.Warn("the CA's secret is damaged; it is made again", "secret", s.secret.key, "damage", broken)
	}
	written, err := s.store(ctx, secret, want)
	if err != nil {
		return errors.Join(broken, err)
	}
	if written {
		s.wrote, s.authorities = write{over: version, at: now}, want
		s.count(func(counts *Status) { counts.AuthoritiesMade += made })
		s.log.Info("wrote the CA's secret", "secret", s.secret.key, "made", made, "staged", want.next != nil, "promoted", stored.current != nil && !stored.current.cert.Equal(want.current.cert))
	}
	return nil
}

// store writes the authorities into the Secret, which is nil if there is none. It
// returns false when somebody else's write came first.
func (s *selfSigned) store(ctx context.Context, secret *corev1.Secret, want authorities) (bool, error) {
	secrets := s.client.CoreV1().Secrets(s.options.Namespace)
	verb := "create"
	var err error
	if secret != nil {
		verb = "update"
		next := secret.DeepCopy()
		if next.Data, err = want.write(secret.Data); err != nil {
			return false, err
		}
		_, err = secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	} else {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.options.Namespace, Name: s.options.SecretName,
			Labels: map[string]string{"app.kubernetes.io/name": "pillion", "app.kubernetes.io/component": "certificate-authority"},
		}}
		if made.Data, err = want.write(nil); err != nil {
			return false, err
		}
		_, err = secrets.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if overtaken(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing it: %w", s.forbidden(err, verb, "secrets", s.options.SecretName))
	}
	return true, nil
}

// pending is whether this replica wrote over the version that it still sees: what
// it wrote is on its way back.
func (w write) pending(version string, now time.Time) bool {
	return !w.at.IsZero() && w.over == version && now.Sub(w.at) < checkInterval
}

// inUse is the CA of the served leaf, while that leaf is valid.
func (s *selfSigned) inUse() *x509.Certificate {
	served := s.handover.served.Load()
	if served == nil || expired(served.tls.Leaf, s.now()) {
		return nil
	}
	return served.issuer
}

// newestBundle is the bundle by the Secret as the API server has it now, or the
// last one known when that Secret is absent or broken. It is nil when that
// Secret does not yet remember the CA of the served leaf: it is so new that this
// replica is about to see it, and to add that CA first.
func (s *selfSigned) newestBundle(ctx context.Context) ([]byte, error) {
	secret, err := s.client.CoreV1().Secrets(s.options.Namespace).Get(ctx, s.options.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s.authorities.bundle(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.secret.key, s.forbidden(err, "get", "secrets", s.options.SecretName))
	}
	stored, err := readAuthorities(secret.Data)
	if err != nil {
		return s.authorities.bundle(), nil
	}
	stored = stored.completedBy(s.authorities)
	if used := s.inUse(); used != nil && !stored.trusts(used) {
		return nil, nil
	}
	return stored.bundle(), nil
}

// renew signs the next leaf, if one is needed.
func (s *selfSigned) renew() error {
	current, now := s.authorities.current, s.now()
	if s.candidate != nil && !s.candidate.outlived(current, now) {
		return nil
	}
	host := s.options.Service + "." + s.options.Namespace
	names := []string{s.service.dnsName(), host + ".svc.cluster.local", host}
	next, err := current.sign(s.options.KeyAlgorithm, names, now, s.options.LeafDuration)
	if err != nil {
		return err
	}
	s.candidate = next
	return nil
}

// outlived is whether another leaf is needed, by the CA current.
func (l *leaf) outlived(current *ca, now time.Time) bool {
	cert := l.tls.Leaf
	if !l.issuer.Equal(current.cert) || now.Before(cert.NotBefore) || expired(cert, now) {
		return true
	}
	// One that lasts as long as its CA is as good as any.
	return due(cert, now) && cert.NotAfter.Before(current.cert.NotAfter)
}
