package certs

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Source supplies a TLS server's certificate.
type Source interface {
	// GetCertificate is the function that crypto/tls calls for each handshake. It
	// fails while there is no certificate yet.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// Run keeps the certificate current until ctx ends, and then returns nil. Any
	// error is one that the process cannot recover from. Call Run once.
	Run(ctx context.Context) error

	// Ready returns nil if API servers can verify the served certificate. Otherwise
	// the error says what is missing, and on which object. After the first nil, Ready
	// returns an error only if the certificate has expired, or if entries call the
	// Service and none of them verifies the certificate. Status reports the rest.
	Ready() error

	// Status returns the present state, for metrics.
	Status() Status
}

// provider supplies the leaves of a source.
type provider interface {
	// newest does the provider's work of one round and returns its newest leaf, nil
	// while there is none. Only the loop calls newest.
	newest(ctx context.Context) *leaf

	// missing says why there is no leaf yet. Any goroutine may call it.
	missing() error

	// trust returns the trusted CAs. Only the loop calls trust.
	trust() trust

	// status describes the provider.
	status() ProviderStatus
}

// source is the [Source] of every provider: it puts the parts together.
type source struct {
	provider    provider
	permissions *permissions
	loop        *loop
	serving     *serving
	readiness   *readiness
	publisher   *publisher
	problems    *problems
	counters    *counters
	trusted     *trustLog
	now         func() time.Time

	// authorities are the CAs after the last round, for Status.
	authorities atomic.Pointer[[]Authority]

	// watches follow the objects that the provider needs, each until its context ends.
	watches []func(context.Context)
}

// newSource makes a source without a provider. needed are the permissions without
// which it does not start.
func newSource(o Options, needed []permission, client kubernetes.Interface, now func() time.Time) (*source, error) {
	s := &source{loop: newLoop(), problems: newProblems(o.Logger), counters: &counters{}, now: now}
	s.trusted = &trustLog{log: o.Logger, made: map[Fingerprint]bool{}}
	var configurations []*configuration
	for _, c := range o.WebhookConfigurations {
		followed, err := followConfiguration(client, c, o.service(), s.loop.changed)
		if err != nil {
			return nil, err
		}
		configurations = append(configurations, followed)
		s.watches = append(s.watches, followed.run)
	}
	verifier := &verifier{configurations: configurations, service: o.service(), problems: s.problems}
	s.permissions = &permissions{client: client, needed: needed, problems: s.problems, log: o.Logger}
	s.serving = &serving{confirmed: confirmations{}, settle: o.Settle, verifier: verifier, counters: s.counters, log: o.Logger, now: now}
	s.readiness = &readiness{serving: s.serving, verifier: verifier, log: o.Logger, now: now, unverifiable: map[WebhookConfiguration]bool{}}
	s.publisher = &publisher{configurations: configurations, permissions: s.permissions, problems: s.problems, log: o.Logger, now: now}
	return s, nil
}

// GetCertificate implements [Source].
func (s *source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.serving.GetCertificate(hello)
}

// Run implements [Source]. It waits for the permissions first: following an object
// without the permission would retry for ever and only log it.
func (s *source) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.permissions.await(ctx) {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { s.permissions.watch(ctx) })
	for _, watch := range s.watches {
		running.Go(func() { watch(ctx) })
	}
	s.loop.run(ctx, s.round)
	return nil
}

// round brings the provider's state and the served leaf one step further. It returns
// how long to wait for a change before the next round.
func (s *source) round(ctx context.Context) time.Duration {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	if candidate := s.provider.newest(ctx); candidate != nil {
		s.serving.offer(candidate)
	}
	trust := s.provider.trust()
	s.trusted.note(trust, s.now())
	authorities := trust.authorities()
	s.authorities.Store(&authorities)
	s.readiness.logChanges()
	if s.serving.leaf() == nil {
		return startInterval
	}
	return checkInterval
}

// Ready implements [Source].
func (s *source) Ready() error {
	if err := s.problems.of(subjectStart); err != nil {
		return err
	}
	return s.readiness.ready(s.provider.missing)
}

// Status implements [Source].
func (s *source) Status() Status {
	status := Status{
		Provider:  s.provider.status(),
		Rotations: int(s.counters.rotations.Load()), Handovers: int(s.counters.handovers.Load()), AuthoritiesMade: int(s.counters.made.Load()),
		Failures: s.problems.counts(), Problems: s.problems.list(), Configurations: s.readiness.configurations(),
	}
	if list := s.authorities.Load(); list != nil {
		status.Authorities = *list
	}
	if served := s.serving.leaf(); served != nil {
		status.Expires = served.tls.Leaf.NotAfter
		if served.issuer != nil {
			status.CAExpires = served.issuer.NotAfter
		}
	}
	return status
}
