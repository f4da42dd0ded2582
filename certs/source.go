package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
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

// provider supplies the leaves of a source.
type provider interface {
	// newest does the provider's work of one round and returns its newest leaf, nil
	// while there is none. Only the loop calls newest.
	newest(ctx context.Context) *leaf

	// missing returns the reason why there is no leaf yet. Any goroutine may call it.
	missing() error
}

// Source supplies a TLS server's certificate. It is a collector of its metrics.
// [NewSelfSigned], [NewCertManager] and [NewFiles] return one.
type Source struct {
	parts
	provider provider

	// verified reports whether Ready has returned nil before.
	verified atomic.Bool

	// unverifiable are the configurations that do not verify the served leaf, as logged. Only
	// the loop uses it.
	unverifiable map[WebhookConfiguration]bool

	// creations counts the CAs that this process created and stored.
	creations atomic.Int64

	// changed starts the next round.
	changed waiting.Wake

	// watches follow the objects that the provider needs, each until its context ends.
	watches []func(context.Context)
}

// parts are shared by a source and its provider.
type parts struct {
	permissions *permissions
	verifier    *verifier
	serving     *serving
	publisher   *publisher
	problems    *problems
	log         *slog.Logger
	now         func() time.Time
}

// newSource returns a source without a provider. needed are the permissions without
// which it does not start.
func newSource(o Options, needed []permission) *Source {
	s := &Source{
		parts:   parts{problems: newProblems(o.Logger), log: o.Logger, now: o.Now},
		changed: waiting.NewWake(), unverifiable: map[WebhookConfiguration]bool{},
	}
	var configurations []*configuration
	for _, c := range o.WebhookConfigurations {
		configuration := configurationFor(o.Client, c, o.service(), s.changed.Wake)
		configurations = append(configurations, configuration)
		s.watches = append(s.watches, configuration.run)
	}
	s.verifier = &verifier{configurations: configurations, service: o.service(), problems: s.problems}
	s.permissions = &permissions{client: o.Client, needed: needed, problems: s.problems, log: o.Logger}
	s.serving = &serving{confirmed: confirmations{}, settle: o.Settle, verifier: s.verifier, log: o.Logger, now: o.Now}
	s.publisher = &publisher{configurations: configurations, permissions: s.permissions, problems: s.problems, log: o.Logger, now: o.Now}
	return s
}

// GetCertificate is the function that crypto/tls calls for each handshake. It fails while
// there is no certificate yet.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := s.serving.leaf(); served != nil {
		return served.tls, nil
	}
	return nil, errors.New("no serving certificate yet")
}

// Run keeps the certificate current until ctx ends, which is no error. Call it once. It waits for
// the permissions first: a watch without the permission would retry for ever and only log it.
func (s *Source) Run(ctx context.Context) error {
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
	for waiting.Until(ctx, s.round(ctx), s.changed) {
	}
	return nil
}

// round brings the provider's state and the served leaf one step further. It returns
// how long to wait for a change before the next round.
func (s *Source) round(ctx context.Context) time.Duration {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	if candidate := s.provider.newest(ctx); candidate != nil {
		s.serving.offer(candidate)
	}
	s.logChanges()
	if s.serving.leaf() == nil {
		return startInterval
	}
	return checkInterval
}
