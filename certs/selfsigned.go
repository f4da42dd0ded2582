package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	cmtls "github.com/cert-manager/cert-manager/pkg/server/tls"
	cmauthority "github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// fieldManager is the name under which the writes appear in managedFields.
	fieldManager = "pillion"

	// checkInterval is how often everything is looked at without any event:
	// expiry is a matter of the wall clock, and a failed write is tried again.
	checkInterval = time.Second

	// startInterval takes its place while there is no leaf yet.
	startInterval = 100 * time.Millisecond

	// callTimeout bounds each request to the API server.
	callTimeout = 5 * time.Second

	// callsPerSecond and callsBurst bound how hard this process fights against
	// somebody who keeps resetting the caBundle.
	callsPerSecond = 5
	callsBurst     = 20
)

// SelfSignedOptions says for whom certificates are made and where they are
// published. Durations that are zero take their default.
type SelfSignedOptions struct {
	// RESTConfig is how to reach the API server. It is copied.
	RESTConfig *rest.Config

	// Namespace is the namespace of Secret and Service.
	Namespace string

	// SecretName is the Secret that holds the CA. It is made when it is absent.
	SecretName string

	// Service is the Service by which API servers call the webhook.
	Service string

	// WebhookConfigurations names the MutatingWebhookConfigurations that get
	// the bundle, in the caBundle of every entry. With none, nothing is published.
	WebhookConfigurations []string

	// CADuration is how long a new CA is valid (default 8760h, a year). It is
	// replaced after two thirds of that.
	CADuration time.Duration

	// LeafDuration is how long a serving certificate is valid (default 168h, a
	// week), less than CADuration. It is replaced after about two thirds of that.
	LeafDuration time.Duration

	// Settle is how long a new CA must have been seen published before a leaf
	// signed by it takes the place of a valid one (default 5m). Negative means
	// no time at all.
	Settle time.Duration

	// Logger gets what happens (default: nothing is logged).
	Logger *slog.Logger
}

// SelfSigned is the [Source] whose CA lives in a Secret that all replicas share.
type SelfSigned struct {
	options SelfSignedOptions
	client  kubernetes.Interface
	log     *slog.Logger
	now     func() time.Time

	authority *authority
	source    *cmtls.DynamicSource
	handover  handover

	secret         *followed[*corev1.Secret]
	configurations []*followed[*admissionv1.MutatingWebhookConfiguration]
	wake           chan struct{}

	// bundle is the last one that came from a sound Secret. It stays in force
	// while the Secret is absent or broken.
	bundle []byte

	// trusted is what the Secret last remembered. It is put back when someone
	// made the Secret anew, even in the middle of a change of CAs.
	trusted []trusted

	mu sync.Mutex
	// problems are what fails at present, by the object that it is about.
	problems map[string]error
}

var _ Source = (*SelfSigned)(nil)

// NewSelfSigned prepares the provider. The error names the option that is
// missing or wrong; nothing is asked of the API server before Run.
func NewSelfSigned(o SelfSignedOptions) (*SelfSigned, error) {
	if o.RESTConfig == nil {
		return nil, errors.New("self-signed certificates: RESTConfig is not set")
	}
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("self-signed certificates: %w", err)
	}
	config := rest.CopyConfig(o.RESTConfig)
	config.QPS, config.Burst, config.RateLimiter = callsPerSecond, callsBurst, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("self-signed certificates: making a client: %w", err)
	}
	return newSelfSigned(o, client, &cmauthority.DynamicAuthority{
		SecretNamespace: o.Namespace,
		SecretName:      o.SecretName,
		SecretLabels:    map[string]string{"app.kubernetes.io/name": "pillion", "app.kubernetes.io/component": "certificate-authority"},
		RESTConfig:      config,
		CommonName:      "pillion-ca",
		CADuration:      o.CADuration,
		LeafDuration:    o.LeafDuration,
	}, time.Now)
}

func (o *SelfSignedOptions) complete() error {
	for _, field := range []struct{ name, value string }{
		{"Namespace", o.Namespace}, {"SecretName", o.SecretName}, {"Service", o.Service},
	} {
		if field.value == "" {
			return fmt.Errorf("%s is not set", field.name)
		}
	}
	if slices.Contains(o.WebhookConfigurations, "") {
		return errors.New("a name in WebhookConfigurations is empty")
	}
	if o.CADuration == 0 {
		o.CADuration = 365 * 24 * time.Hour
	}
	if o.LeafDuration == 0 {
		o.LeafDuration = 7 * 24 * time.Hour
	}
	if o.LeafDuration < 0 || o.CADuration <= o.LeafDuration {
		return fmt.Errorf("CADuration (%s) must be greater than LeafDuration (%s), and both greater than zero", o.CADuration, o.LeafDuration)
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func newSelfSigned(o SelfSignedOptions, client kubernetes.Interface, maker runner, now func() time.Time) (*SelfSigned, error) {
	s := &SelfSigned{
		options:   o,
		client:    client,
		log:       o.Logger,
		now:       now,
		authority: &authority{maker: maker, leafDuration: o.LeafDuration, now: now},
		handover:  handover{settle: o.Settle},
		wake:      make(chan struct{}, 1),
		problems:  map[string]error{"start": errors.New("not started yet")},
	}
	host := o.Service + "." + o.Namespace
	s.source = &cmtls.DynamicSource{
		DNSNames:      []string{s.dnsName(), host + ".svc.cluster.local", host},
		Authority:     s.authority,
		RetryInterval: startInterval,
	}
	var err error
	s.secret, err = follow[*corev1.Secret](client, client.CoreV1().Secrets(o.Namespace), o.Namespace, o.SecretName, s.changed)
	if err != nil {
		return nil, err
	}
	for _, name := range o.WebhookConfigurations {
		c, err := follow[*admissionv1.MutatingWebhookConfiguration](client, client.AdmissionregistrationV1().MutatingWebhookConfigurations(), "", name, s.changed)
		if err != nil {
			return nil, err
		}
		s.configurations = append(s.configurations, c)
	}
	return s, nil
}

// dnsName is the name by which API servers call a Service.
func (s *SelfSigned) dnsName() string {
	return s.options.Service + "." + s.options.Namespace + ".svc"
}

func (s *SelfSigned) changed() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// GetCertificate gives the leaf that API servers can verify by now; right after
// the start, the first leaf there is.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := s.handover.served.Load(); served != nil {
		return served.tls, nil
	}
	return nil, errors.New("no serving certificate yet")
}

// ExpiryTime is when the leaf that is served now ends.
func (s *SelfSigned) ExpiryTime() (time.Time, bool) {
	if served := s.handover.served.Load(); served != nil {
		return served.tls.Leaf.NotAfter, true
	}
	return time.Time{}, false
}

// Run makes, publishes and renews certificates until ctx ends.
func (s *SelfSigned) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(quiet{s.log.Handler()}))
	if !s.awaitPermissions(ctx) {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { s.secret.run(ctx) })
	for _, c := range s.configurations {
		running.Go(func() { c.run(ctx) })
	}
	running.Go(func() { s.keep(ctx) })
	if err := s.source.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("keeping the serving certificate: %w", err)
	}
	if ctx.Err() == nil {
		return errors.New("keeping the serving certificate: it stopped by itself")
	}
	return nil
}

// awaitPermissions returns when the process may do all that it has to, or false
// when ctx ends before. What is missing is what Ready says in the meantime.
func (s *SelfSigned) awaitPermissions(ctx context.Context) bool {
	list := permissionsFor(s.options.Namespace, s.options.SecretName, s.options.WebhookConfigurations)
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := checkPermissions(call, s.client, list)
		cancel()
		s.note("start", err)
		if err == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(checkInterval):
		}
	}
}

// keep reconciles after every change, and now and then without any.
func (s *SelfSigned) keep(ctx context.Context) {
	for {
		s.reconcile(ctx)
		interval := checkInterval
		if s.handover.served.Load() == nil {
			interval = startInterval
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// reconcile brings the Secret's memory, the published bundle and the served
// leaf one step further. It waits for nothing: a write that was overtaken
// brings an event, and that brings the next step.
func (s *SelfSigned) reconcile(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s.loadSecret(ctx)
	for _, c := range s.configurations {
		if configuration, ok := c.get(); ok {
			s.note(c.key, s.publish(ctx, configuration))
		}
	}
	s.handOver()
}

// loadSecret takes the CA from the Secret, and sees to it that the Secret
// remembers all that API servers are to trust. This comes before publishing, so
// that no replica publishes a bundle without the CA of a leaf that is in use.
func (s *SelfSigned) loadSecret(ctx context.Context) {
	secret, ok := s.secret.get()
	if !ok {
		return
	}
	current, err := caFromSecret(secret)
	if err != nil {
		s.note(s.secret.key, err)
		return
	}
	s.authority.use(current)
	s.trusted = s.trustedIn(secret)
	s.bundle = bundle(current.cert, s.trusted)
	s.note(s.secret.key, s.rememberIn(ctx, secret, current.cert))
}

// trustedIn is what the Secret remembers. A Secret that remembers nothing is a
// new one: then it is what the last one remembered. (One that does remember
// something is right about what it has forgotten.)
func (s *SelfSigned) trustedIn(secret *corev1.Secret) []trusted {
	if stored := parseTrusted(secret.Data[secretTrustedKey]); len(stored) > 0 {
		return stored
	}
	return s.trusted
}

// rememberIn updates what the Secret remembers, if that is out of date.
func (s *SelfSigned) rememberIn(ctx context.Context, secret *corev1.Secret, current *x509.Certificate) error {
	stored := secret.Data[secretTrustedKey]
	keep := max(s.options.Settle, 0) + s.options.LeafDuration + clockSkew
	want := encodeTrusted(remember(s.trusted, current, s.inUse(), s.now(), keep))
	if bytes.Equal(stored, want) {
		return nil
	}
	next := secret.DeepCopy()
	next.Data[secretTrustedKey] = want
	_, err := s.client.CoreV1().Secrets(secret.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing its key %s: %w", secretTrustedKey, err)
	}
	return nil
}

// inUse is the CA of the served leaf, while that leaf is valid.
func (s *SelfSigned) inUse() *x509.Certificate {
	served := s.handover.served.Load()
	if served == nil || !s.now().Before(served.tls.Leaf.NotAfter) {
		return nil
	}
	return served.issuer
}

// publish writes the bundle into the configuration, if it is not there.
//
// Before it does, it reads the Secret once more, from the API server: this
// replica may not have seen the newest CA, and must not undo what a replica
// that has seen it published. Together with the patch's test of the version of
// the configuration, which was read before the Secret, a bundle can only be
// replaced by one that comes from the same or a newer Secret.
func (s *SelfSigned) publish(ctx context.Context, configuration *admissionv1.MutatingWebhookConfiguration) error {
	if s.bundle == nil || len(outdated(configuration, s.bundle)) == 0 {
		return nil
	}
	want, err := s.newestBundle(ctx)
	if err != nil {
		return err
	}
	indexes := outdated(configuration, want)
	if want == nil || len(indexes) == 0 {
		return nil
	}
	patch, err := bundlePatch(configuration, indexes, want)
	if err != nil {
		return err
	}
	_, err = s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, configuration.Name,
		types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if overtaken(err) || apierrors.IsNotFound(err) {
		s.log.Debug("the bundle was not published: the webhook configuration has changed meanwhile", "configuration", configuration.Name, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publishing the CA bundle: %w", err)
	}
	s.log.Info("published the CA bundle", "configuration", configuration.Name, "entries", len(indexes))
	return nil
}

// newestBundle is the bundle by the Secret as the API server has it now, or the
// last one known when that Secret is absent or broken. It is nil when that
// Secret does not yet remember the CA of the served leaf: it is so new that this
// replica is about to see it, and to add that CA first.
func (s *SelfSigned) newestBundle(ctx context.Context) ([]byte, error) {
	secret, err := s.client.CoreV1().Secrets(s.options.Namespace).Get(ctx, s.options.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s.bundle, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s before publishing the CA bundle: %w", s.secret.key, err)
	}
	current, err := caFromSecret(secret)
	if err != nil {
		return s.bundle, nil
	}
	stored := s.trustedIn(secret)
	if used := s.inUse(); used != nil && !used.Equal(current.cert) && !contains(stored, used) {
		return nil, nil
	}
	return bundle(current.cert, stored), nil
}

// handOver serves the newest leaf, when it is time for that.
func (s *SelfSigned) handOver() {
	certificate, err := s.source.GetCertificate(nil)
	if err != nil {
		return
	}
	now := s.now()
	candidate := &leaf{tls: certificate, issuer: s.authority.issuer(certificate.Leaf)}
	if s.handover.offer(candidate, now, func(l *leaf) bool { return s.unverified(l, now, false) == nil }) {
		s.log.Info("serving a new certificate", "expires", certificate.Leaf.NotAfter.UTC())
	}
}

// note keeps what fails at present with an object, or that nothing does, and
// logs when that changes.
func (s *SelfSigned) note(object string, err error) {
	s.mu.Lock()
	before := s.problems[object]
	if err == nil {
		delete(s.problems, object)
	} else {
		s.problems[object] = err
	}
	s.mu.Unlock()
	if err != nil && (before == nil || before.Error() != err.Error()) {
		s.log.Warn("certificates", "object", object, "error", err)
	}
}

func (s *SelfSigned) problem(object string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems[object]
}
