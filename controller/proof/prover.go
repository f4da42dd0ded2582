package proof

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// interval is the time between two proofs that succeed, give or take a fifth of it:
	// replicas that start together do not prove together.
	interval = 30 * time.Second
	// soonest is the time after the first proof that fails, latest that after many.
	soonest = time.Second
	latest  = 10 * time.Second
	// enough proofs that fail in a row mean that pods are not injected.
	enough = 3
	// readyInterval is how often it is looked whether the replica is ready.
	readyInterval = 50 * time.Millisecond
)

// Enforcement says whether Pillion refuses pods rather than let them go without it.
type Enforcement struct {
	// Enforce: namespaces that ask may become enforced, since Pillion has proven itself.
	Enforce bool
	// TakeBack: those that Pillion enforced before go back to enabled.
	TakeBack bool
}

// Options are what [New] needs. All fields are required, but TakeBackAfter.
type Options struct {
	// Prefix is that of annotations and labels, Namespace the proof namespace.
	Prefix, Namespace string
	// Ready returns nil once the replica can answer reviews.
	Ready func() error
	// Create creates a pod in the proof namespace by server-side dry run, and returns what it
	// would be. Timeout bounds it.
	Create  func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Timeout time.Duration
	// Exists reports whether the namespace is there.
	Exists func() bool
	// Verifies: API servers have final pods verified, so that a proof tries that, too.
	Verifies bool
	// TakeBackAfter is how long proofs must have failed until enforcement is taken back.
	// Zero: it never is.
	TakeBackAfter time.Duration
	Logger        *slog.Logger
}

// Prover proves. Make one with [New]. A nil Prover has proven nothing and never will.
type Prover struct {
	options Options

	mu        sync.Mutex
	listeners []func()
	state     Enforcement
	// failures are those in a row. Broken is when the first of them began that showed pods without
	// injection.
	failures int
	broken   time.Time
	last     *Failure
	// bare counts the pods in a row that were not verified, and unverified says why the last one was not.
	bare       int
	unverified *Failure
	// said is the outcome that the log had last.
	said   Outcome
	counts map[Outcome]int
}

// New returns a prover that does nothing until [Prover.Run] runs.
func New(o Options) *Prover {
	return &Prover{options: o, counts: map[Outcome]int{}}
}

// OnChange calls f whenever [Prover.Enforcement] says something else, one call at a time. f
// must return soon. Call it before Run.
func (p *Prover) OnChange(f func()) { p.listeners = append(p.listeners, f) }

// Enforcement says what the proofs allow.
func (p *Prover) Enforcement() Enforcement {
	if p == nil {
		return Enforcement{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Proven reports whether namespaces that ask may become enforced.
func (p *Prover) Proven() bool { return p.Enforcement().Enforce }

// Err returns why the last proof failed, as a [*Failure], or nil if it succeeded or there was
// none.
func (p *Prover) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		return nil
	}
	return p.last
}

// Run proves until ctx ends, which is no error.
func (p *Prover) Run(ctx context.Context) error {
	if !waiting.UntilReady(ctx, readyInterval, p.options.Ready) {
		return nil
	}
	for {
		began := time.Now()
		failure := p.prove(ctx)
		var unverified *Failure
		verifies := p.options.Verifies && failure == nil
		if verifies {
			unverified = p.verify(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		wait := p.take(began, failure)
		if verifies {
			wait = min(wait, p.verified(unverified))
		}
		if !waiting.For(ctx, wait) {
			return nil
		}
	}
}

// take takes note of a proof that began then. A nil failure is success. It returns the time
// until the next one.
func (p *Prover) take(began time.Time, failure *Failure) time.Duration {
	p.mu.Lock()
	before := p.state
	var wait time.Duration
	if failure == nil {
		wait = p.succeeded()
	} else {
		wait = p.failed(began, failure)
	}
	changed := p.state != before
	p.mu.Unlock()
	if changed {
		for _, f := range p.listeners {
			f()
		}
	}
	return wait
}

func (p *Prover) succeeded() time.Duration {
	p.counts[Proven]++
	if !p.state.Enforce || p.said != "" {
		p.options.Logger.Info("proven: API servers have pods injected, so namespaces that ask for sidecars may be enforced", "namespace", p.options.Namespace)
	}
	p.state = Enforcement{Enforce: true}
	p.failures, p.broken, p.last, p.said = 0, time.Time{}, nil, ""
	return interval + time.Duration((rand.Float64()*2-1)*float64(interval)/5)
}

func (p *Prover) failed(began time.Time, failure *Failure) time.Duration {
	p.counts[failure.Outcome]++
	p.failures++
	p.last = failure
	if failure.Outcome.broken() && p.broken.IsZero() {
		p.broken = began
	}
	if p.failures >= enough {
		p.state.Enforce = false
		if p.said != failure.Outcome {
			p.said = failure.Outcome
			p.options.Logger.Error("the proof that pods are injected fails: no more namespaces become enforced until it succeeds; enforced ones stay enforced until --take-back-after is over, if it is set",
				"reason", failure.Outcome, "failures", p.failures, "error", failure)
		}
	}
	wait := soonest
	for i := 1; i < p.failures && wait < latest; i++ {
		wait += wait / 2
	}
	wait = min(wait, latest)
	if after := p.options.TakeBackAfter; after > 0 && !p.broken.IsZero() && !p.state.TakeBack {
		left := after - time.Since(p.broken)
		switch {
		case left > 0:
			wait = min(wait, left)
		case failure.Outcome.broken() && p.failures >= enough:
			p.state.TakeBack = true
			p.options.Logger.Error("enforcement is taken back: the namespaces that Pillion enforced become enabled, so a failure lets pods through without their sidecars",
				"failingSince", p.broken, "takeBackAfter", after, "error", failure)
		}
	}
	return wait
}
