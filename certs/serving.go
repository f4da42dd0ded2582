package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	// permissionInterval is how often it is asked again whether the process may do
	// what it has to: rights that are needed seldom would else be missed only then.
	permissionInterval = 2 * time.Minute

	// callTimeout bounds each round of requests to the API server.
	callTimeout = 5 * time.Second

	// callsPerSecond and callsBurst bound how hard this process fights against
	// somebody who keeps resetting the caBundle.
	callsPerSecond = 10
	callsBurst     = 50
)

// Operations that may fail, as [Status] counts them.
const (
	failedPermission = "permission"
	failedSecret     = "secret"
	failedSign       = "sign"
	failedPublish    = "publish"
	failedFiles      = "files"
)

// Options are what all providers are told.
type Options struct {
	// RESTConfig is how to reach the API server. It is copied.
	RESTConfig *rest.Config

	// Namespace and Service name the Service by which API servers call the webhook.
	Namespace, Service string

	// WebhookConfigurations are the objects whose entries call the Service. With
	// none, nothing is published, and any certificate is good enough.
	WebhookConfigurations []WebhookConfiguration

	// Settle is how long a new CA must have been seen published before a leaf
	// signed by it takes the place of a valid one (default 5m). Negative means
	// no time at all.
	Settle time.Duration

	// Logger gets what happens (default: nothing is logged).
	Logger *slog.Logger
}

func (o *Options) complete() error {
	if err := errors.Join(required("Namespace", o.Namespace), required("Service", o.Service)); err != nil {
		return err
	}
	if err := checkConfigurations(o.WebhookConfigurations); err != nil {
		return err
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// required is an error that names the option, when it has no value.
func required(option, value string) error {
	if value == "" {
		return fmt.Errorf("%s is not set", option)
	}
	return nil
}

// defaultLeafDuration is how long a leaf is valid where nothing else is said.
const defaultLeafDuration = 7 * 24 * time.Hour

// open completes a provider's options and makes its client. Errors begin with what the
// provider gives.
func (o *Options) open(gives string, complete func() error) (kubernetes.Interface, error) {
	if err := complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", gives, err)
	}
	client, err := o.connect()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gives, err)
	}
	return client, nil
}

// connect makes a client with a rate limit of its own.
func (o *Options) connect() (kubernetes.Interface, error) {
	if o.RESTConfig == nil {
		return nil, errors.New("RESTConfig is not set")
	}
	config := rest.CopyConfig(o.RESTConfig)
	config.QPS, config.Burst, config.RateLimiter = callsPerSecond, callsBurst, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// serving is what the providers share: the leaf that is served, the webhook
// configurations by which API servers verify it, and what is wrong at present.
type serving struct {
	client  kubernetes.Interface
	log     *slog.Logger
	now     func() time.Time
	service service
	settle  time.Duration

	permissions    []permission
	handover       handover
	confirmed      confirmations
	configurations []*configuration
	wake           chan struct{}

	// verified is whether Ready has been nil once.
	verified atomic.Bool

	// unverifiable are the configurations of which the log said so last; only run uses it.
	unverifiable map[WebhookConfiguration]bool

	mu sync.Mutex
	// problems are what fails at present, by the object that it is about.
	problems map[string]failure
	counts   Status
}

// failure is what fails with an object.
type failure struct {
	operation string
	err       error
}

// subjectStart is the object of problems that keep the process from starting.
const subjectStart = "start"

func newServing(o Options, client kubernetes.Interface, now func() time.Time) (*serving, error) {
	s := &serving{
		client: client, log: o.Logger, now: now, settle: o.Settle,
		service:   service{o.Namespace, o.Service},
		confirmed: confirmations{},
		wake:      make(chan struct{}, 1), unverifiable: map[WebhookConfiguration]bool{},
		problems: map[string]failure{subjectStart: {err: errors.New("not started yet")}},
		counts:   Status{Failures: map[string]int{failedPermission: 0, failedSecret: 0, failedSign: 0, failedPublish: 0, failedFiles: 0}},
	}
	for _, c := range o.WebhookConfigurations {
		followed, err := followConfiguration(client, c, s.service, s.changed)
		if err != nil {
			return nil, err
		}
		s.configurations = append(s.configurations, followed)
	}
	return s, nil
}

// changed asks for a reconciliation.
func (s *serving) changed() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// GetCertificate gives the leaf that API servers can verify by now; right after
// the start, the first leaf there is.
func (s *serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if served := s.handover.served.Load(); served != nil {
		return served.tls, nil
	}
	return nil, errors.New("no serving certificate yet")
}

// run follows what the provider needs and calls reconcile after every change,
// and now and then without any, until ctx ends.
func (s *serving) run(ctx context.Context, permissions []permission, reconcile func(context.Context), follow ...func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.permissions = permissions
	if !s.awaitPermissions(ctx) {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { s.watchPermissions(ctx) })
	for _, f := range follow {
		running.Go(func() { f(ctx) })
	}
	for _, c := range s.configurations {
		running.Go(func() { c.run(ctx) })
	}
	for {
		round, done := context.WithTimeout(ctx, callTimeout)
		reconcile(round)
		done()
		s.logUnverified()
		interval := checkInterval
		if s.handover.served.Load() == nil {
			interval = startInterval
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// awaitPermissions returns when the process may do all that it has to, or false
// when ctx ends before. What is missing is what Ready says in the meantime.
func (s *serving) awaitPermissions(ctx context.Context) bool {
	for {
		missing, err := s.missingPermissions(ctx)
		if len(missing) > 0 {
			err = missingError(missing...)
		}
		s.note(subjectStart, failedPermission, err)
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

// watchPermissions asks again now and then, until ctx ends. A right that is missing then
// costs nobody readiness: what is served stays served.
func (s *serving) watchPermissions(ctx context.Context) {
	ticker := time.NewTicker(permissionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		missing, err := s.missingPermissions(ctx)
		if err != nil {
			s.log.Debug("it is not known which rights are missing", "error", err)
			continue
		}
		for _, p := range s.permissions {
			var err error
			if slices.Contains(missing, p) {
				err = missingError(p)
			}
			s.note(p.what(), failedPermission, err)
		}
	}
}

func (s *serving) missingPermissions(ctx context.Context) ([]permission, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return missingPermissions(ctx, s.client, s.permissions)
}

// forbidden names the permission that is missing, if that is what the error of a
// request is about: it may have been taken away after the start.
func (s *serving) forbidden(err error, verb, resource, name string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	for _, p := range s.permissions {
		if p.verb == verb && p.resource == resource && (p.name == name || p.name == "") {
			return fmt.Errorf("%w: %w", missingError(p), err)
		}
	}
	return err
}

// offer serves the candidate, when it is time for that.
func (s *serving) offer(candidate *leaf) {
	now := s.now()
	verifies := func(l *leaf) bool { return s.unverified(l, now, false) == nil }
	s.confirmed.observe(candidate.trustAnchor(), verifies(candidate), now)
	settled := func(l *leaf) bool { return s.confirmed.settled(l.trustAnchor(), s.settle, now) }
	before := s.handover.served.Load()
	if !s.handover.offer(candidate, now, verifies, settled) {
		return
	}
	otherCA := before != nil && !before.trustAnchor().Equal(candidate.trustAnchor())
	s.count(func(counts *Status) {
		if before != nil {
			counts.Rotations++
		}
		if otherCA {
			counts.Handovers++
		}
	})
	s.log.Info("serving a new certificate", "expires", timestamp(candidate.tls.Leaf.NotAfter), "otherCA", otherCA)
}

// published is whether every configuration that exists trusts the CA, as last seen.
func (s *serving) published(c *ca) bool {
	for _, configuration := range s.configurations {
		r, ok := configuration.get()
		if ok && !r.publishes(c.cert) || !ok && configuration.unknown() != nil {
			return false
		}
	}
	return true
}

// publish writes the bundle into the configurations in which it is not: want, or
// what newest says, which asks the API server and may say nil for "not now".
//
// It asks because this replica may not have seen the newest CA, and must not undo
// what a replica that has seen it published. Together with the patch's test of the
// version of the configuration, which was read before, a bundle can only be
// replaced by one that is as new or newer.
func (s *serving) publish(ctx context.Context, want []byte, newest func(context.Context) ([]byte, error)) {
	for _, c := range s.configurations {
		if r, ok := c.get(); ok && want != nil && len(r.outdated(want)) > 0 {
			s.note(c.String(), failedPublish, s.publishIn(ctx, c, r, newest))
		} else {
			s.note(c.String(), failedPublish, nil)
		}
	}
}

func (s *serving) publishIn(ctx context.Context, c *configuration, r *registration, newest func(context.Context) ([]byte, error)) error {
	want, err := newest(ctx)
	if err != nil {
		return fmt.Errorf("before publishing the CA bundle: %w", err)
	}
	entries := r.outdated(want)
	if want == nil || len(entries) == 0 {
		return nil
	}
	patch, err := bundlePatch(r, entries, want)
	if err != nil {
		return err
	}
	err = c.patch(ctx, patch)
	if overtaken(err) || apierrors.IsInvalid(err) && !c.refused.again(r.resourceVersion, s.now()) {
		s.log.Debug("the bundle was not published: the webhook configuration has changed meanwhile", "configuration", c.String(), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publishing the CA bundle: %w", s.forbidden(err, "patch", c.Kind.resource(), c.Name))
	}
	s.log.Info("published the CA bundle", "configuration", c.String(), "entries", len(entries))
	return nil
}

// note keeps what fails at present with a subject, or that nothing does, and
// logs and counts it when that changes.
func (s *serving) note(subject, operation string, err error) {
	s.mu.Lock()
	before := s.problems[subject]
	if err == nil {
		delete(s.problems, subject)
	} else {
		s.problems[subject] = failure{operation, err}
	}
	changed := err != nil && (before.err == nil || before.err.Error() != err.Error())
	if changed {
		s.counts.Failures[operation]++
	}
	s.mu.Unlock()
	switch {
	case changed:
		s.log.Warn("certificates", "object", subject, "error", err)
	case err == nil && before.err != nil && subject != subjectStart:
		s.log.Info("certificates: well again", "object", subject)
	}
}

func (s *serving) problem(subject string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems[subject].err
}

func (s *serving) count(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// Status says how things stand.
func (s *serving) Status() Status {
	s.mu.Lock()
	status := s.counts
	status.Failures = maps.Clone(s.counts.Failures)
	for _, subject := range slices.Sorted(maps.Keys(s.problems)) {
		if p := s.problems[subject]; subject != subjectStart { // that is what Ready says
			status.Problems = append(status.Problems, Problem{subject, p.operation, p.err})
		}
	}
	s.mu.Unlock()
	served := s.handover.served.Load()
	if served != nil {
		status.Expires = served.tls.Leaf.NotAfter
		if served.issuer != nil {
			status.CAExpires = served.issuer.NotAfter
		}
	}
	now := s.now()
	for _, c := range s.configurations {
		err := errors.New("there is no serving certificate yet")
		if served != nil {
			err = s.unverifiedBy(c, served, now, true)
		}
		status.Configurations = append(status.Configurations, ConfigurationStatus{c.WebhookConfiguration, err})
	}
	return status
}

// ready is Ready, where missing says why there is no leaf yet.
//
// An API server that cannot be reached changes nothing in it: a replica that is
// cut off still serves what it served.
func (s *serving) ready(missing func() error) error {
	if err := s.problem(subjectStart); err != nil {
		return err
	}
	served := s.handover.served.Load()
	if served == nil {
		return fmt.Errorf("no serving certificate yet: %w", missing())
	}
	err := s.unverified(served, s.now(), true)
	if err == nil {
		s.verified.Store(true)
		return nil
	}
	if s.verified.Load() && s.useful(served, s.now()) {
		return nil
	}
	return err
}

// useful is whether a replica that was ready stays so although something is missing.
//
// What is wrong with one configuration is wrong with it for every replica. If they
// all left the Service for it, the others, which still verify them, would find nobody:
// pods would be refused, or go without sidecars. So a replica leaves only when there
// are entries that call it and none of them verifies its leaf.
func (s *serving) useful(l *leaf, now time.Time) bool {
	if expired(l.tls.Leaf, now) {
		return false
	}
	calls := false
	for _, c := range s.configurations {
		r, _ := c.get()
		if r == nil {
			continue
		}
		for _, e := range r.entries {
			if l.verify(e.caBundle, s.service.dnsName(), now) == nil {
				return true
			}
			calls = true
		}
	}
	return !calls
}

// logUnverified logs when a configuration that verified the served leaf ceases to, and
// when it does again: readiness may not show it.
func (s *serving) logUnverified() {
	served := s.handover.served.Load()
	if served == nil || !s.verified.Load() {
		return
	}
	now := s.now()
	for _, c := range s.configurations {
		err := s.unverifiedBy(c, served, now, true)
		before := s.unverifiable[c.WebhookConfiguration]
		s.unverifiable[c.WebhookConfiguration] = err != nil
		switch {
		case err != nil && !before:
			s.log.Warn("API servers that follow this configuration cannot verify the serving certificate", "object", c.String(), "error", err)
		case err == nil && before:
			s.log.Info("API servers that follow this configuration can verify the serving certificate again", "object", c.String())
		}
	}
}

// unverified says, for each configuration in which the leaf would not be
// verified, why. A configuration that does not exist, or of which nothing is
// known, counts only if all must be there.
func (s *serving) unverified(l *leaf, now time.Time, all bool) error {
	var problems []string
	for _, c := range s.configurations {
		if err := s.unverifiedBy(c, l, now, all); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s", c, err))
		}
	}
	if expired(l.tls.Leaf, now) {
		problems = append(problems, "the serving certificate ended at "+timestamp(l.tls.Leaf.NotAfter))
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// unverifiedBy is unverified for one configuration: it names each entry.
func (s *serving) unverifiedBy(c *configuration, l *leaf, now time.Time, all bool) error {
	r, ok := c.get()
	if !ok {
		switch {
		case !all:
			return nil
		case c.unknown() != nil:
			return c.unknown()
		}
		return errors.New("not found")
	}
	if len(r.entries) == 0 && all {
		return fmt.Errorf("none of its entries calls service %s/%s", s.service.namespace, s.service.name)
	}
	var problems []string
	for _, e := range r.entries {
		if err := l.verify(e.caBundle, s.service.dnsName(), now); err != nil {
			problems = append(problems, fmt.Sprintf("entry %s: %s", e.name, err))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	err := errors.New(strings.Join(problems, "; "))
	if publishing := s.problem(c.String()); publishing != nil {
		err = fmt.Errorf("%w (%w)", err, publishing)
	}
	return err
}
