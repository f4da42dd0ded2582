package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pillion-dev/pillion/clientset/waiting"
)

const (
	// checkInterval is the longest time between two rounds: certificates expire by the
	// wall clock, and a failed write is tried again.
	checkInterval = time.Second

	// startInterval replaces checkInterval while there is no leaf yet.
	startInterval = 100 * time.Millisecond

	// callTimeout bounds the requests to the API server of one round.
	callTimeout = 5 * time.Second
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

// provider supplies the leaves of a source. Only the loop calls its methods, but for
// missing, which any goroutine may call.
type provider interface {
	// newest does the provider's work of one round and returns its newest leaf, nil
	// while there is none.
	newest(ctx context.Context) *leaf

	// trust returns the CAs that API servers trust, and the revoked ones.
	trust() authorities

	// missing says why there is no leaf yet.
	missing() error
}

// source is the [Source] of every provider: it puts the parts together.
type source struct {
	options        Options
	about          ProviderStatus
	provider       provider
	permissions    *permissions
	problems       *problems
	configurations *configurations
	serving        *serving
	trusted        *trustLog

	// watches follow the objects that the provider needs, each until its context ends.
	watches []func(context.Context)

	// wake has an item if something has changed since the last round began.
	wake chan struct{}

	// seen is what the last round has found.
	seen atomic.Pointer[findings]
}

// findings are the results of one round.
type findings struct {
	leaf        *leaf
	verdict     verdict
	authorities []Authority

	// verified reports whether every configuration has verified a served leaf, in this
	// round or before.
	verified bool
}

// newSource makes a source without a provider. needed are the permissions without
// which it does not start.
func newSource(o Options, about ProviderStatus, needed []permission) *source {
	s := &source{options: o, about: about, problems: newProblems(o.Logger), wake: make(chan struct{}, 1)}
	s.permissions = &permissions{client: o.Client, needed: needed, problems: s.problems, log: o.Logger}
	s.configurations = &configurations{options: &s.options, permissions: s.permissions, problems: s.problems}
	for _, c := range o.WebhookConfigurations {
		followed := followConfiguration(o.Client, c, o.service(), s.changed)
		s.configurations.list = append(s.configurations.list, followed)
		s.watches = append(s.watches, followed.run)
	}
	s.serving = &serving{options: &s.options, configurations: s.configurations, confirmed: confirmations{}}
	s.trusted = &trustLog{log: o.Logger, origin: "secret", made: map[Fingerprint]bool{}}
	if !about.Publishes {
		s.trusted.origin = "caBundle"
	}
	return s
}

// changed asks for a round. It never blocks.
func (s *source) changed() {
	select {
	case s.wake <- struct{}{}:
	default: // a round is due already
	}
}

// GetCertificate implements [Source].
func (s *source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := s.serving.leaf(); served != nil {
		return served.tls, nil
	}
	return nil, errors.New("no serving certificate yet")
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
	for waiting.Until(ctx, s.round(ctx), s.wake) {
	}
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
	now, served, trust := s.options.Now(), s.serving.leaf(), s.provider.trust()
	s.trusted.note(trust, now)
	found := &findings{leaf: served, verdict: s.configurations.judge(served, now), authorities: trust.states()}
	found.verified = served != nil && found.verdict.err() == nil
	if before := s.seen.Load(); before != nil && before.verified {
		found.verified = true
		found.verdict.logChanges(before.verdict, s.options.Logger)
	}
	s.seen.Store(found)
	if served == nil {
		return startInterval
	}
	return checkInterval
}

// Ready implements [Source].
//
// A problem of one configuration is the same for every replica. If all replicas left the
// Service because of it, the other configurations, which still verify them, would reach no
// replica: pods would be refused, or admitted without sidecars. So a replica that was ready
// leaves only when some entries call it and none of them verifies its leaf. An API server
// that cannot be reached changes nothing: a replica that is cut off still serves its leaf.
func (s *source) Ready() error {
	if err := s.problems.of(subjectStart); err != nil {
		return err
	}
	seen := s.seen.Load()
	if seen == nil || seen.leaf == nil {
		return fmt.Errorf("no serving certificate yet: %w", s.provider.missing())
	}
	err := seen.verdict.err()
	if cert := seen.leaf.tls.Leaf; expired(cert, s.options.Now()) {
		return joined(err, errors.New("the serving certificate ended at "+timestamp(cert.NotAfter)))
	}
	if seen.verified && (seen.verdict.verifying > 0 || seen.verdict.calling == 0) {
		return nil
	}
	return err
}

// joined returns an error with the texts of those that are not nil, in one line; nil if all
// are nil.
func joined(list ...error) error {
	var texts []string
	for _, err := range list {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// Status implements [Source].
func (s *source) Status() Status {
	status := Status{
		Provider:  s.about,
		Rotations: int(s.serving.rotations.Load()), Handovers: int(s.serving.handovers.Load()), AuthoritiesMade: int(s.trusted.count.Load()),
		Failures: s.problems.counts(), Problems: s.problems.list(),
	}
	seen := s.seen.Load()
	if seen == nil {
		seen = &findings{verdict: s.configurations.judge(nil, s.options.Now())}
	}
	status.Configurations, status.Authorities = seen.verdict.configurations, seen.authorities
	if served := s.serving.leaf(); served != nil {
		status.Expires = served.tls.Leaf.NotAfter
		if served.issuer != nil {
			status.CAExpires = served.issuer.NotAfter
		}
	}
	return status
}
