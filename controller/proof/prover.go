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
	// logInterval is how many more failures are between two lines of the log: ten minutes.
	logInterval = 60
	// readyInterval is how often it is looked whether the replica is ready.
	readyInterval = 50 * time.Millisecond
)

// Options are what [New] needs. All fields are required.
type Options struct {
	// Namespace is the proof namespace.
	Namespace string
	// Ready returns nil once the replica can answer reviews.
	Ready func() error
	// Create creates a pod in the proof namespace by server-side dry run, and returns what it
	// would be. Timeout bounds it.
	Create  func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Timeout time.Duration
	Logger  *slog.Logger
}

// Prover makes proofs. Make one with [New].
type Prover struct {
	options Options

	mu        sync.Mutex
	listeners []func()
	proven    bool
	// failures are those in a row.
	failures          int
	succeeded, failed int // in all
}

// New returns a prover that has proven nothing, and does nothing until [Prover.Run] runs.
func New(o Options) *Prover { return &Prover{options: o} }

// OnChange calls f whenever [Prover.Proven] changes, one call at a time. f must return soon. Call
// it before Run.
func (p *Prover) OnChange(f func()) { p.listeners = append(p.listeners, f) }

// Proven reports whether API servers have pods injected, so that namespaces may become enforced.
func (p *Prover) Proven() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proven
}

// Run makes proofs until ctx ends, which is no error.
func (p *Prover) Run(ctx context.Context) error {
	for p.options.Ready() != nil {
		if !waiting.For(ctx, readyInterval) {
			return nil
		}
	}
	for {
		err := p.prove(ctx)
		if ctx.Err() != nil || !waiting.For(ctx, p.observe(err)) {
			return nil
		}
	}
}

func (p *Prover) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	pod, err := p.options.Create(ctx, Pod())
	return Validate(p.options.Namespace, pod, err)
}

// observe counts a proof. A nil error is success. It returns the time until the next one.
func (p *Prover) observe(failure error) time.Duration {
	p.mu.Lock()
	before := p.proven
	wait := p.count(failure)
	changed := p.proven != before
	p.mu.Unlock()
	if changed {
		for _, f := range p.listeners {
			f()
		}
	}
	return wait
}

func (p *Prover) count(failure error) time.Duration {
	if failure == nil {
		if !p.proven {
			p.options.Logger.Info("proven: API servers have pods injected, so namespaces may be enforced", "namespace", p.options.Namespace)
		}
		p.proven, p.failures = true, 0
		p.succeeded++
		return interval + time.Duration((rand.Float64()*2-1)*float64(interval)/5)
	}
	p.failures++
	p.failed++
	if p.failures >= enough {
		p.proven = false
	}
	if p.failures%logInterval == enough {
		p.options.Logger.Error("the proof that pods are injected fails: no namespace becomes enforced until it succeeds; enforced ones stay so. For the cause run: pillion check", "failures", p.failures, "error", failure)
	}
	wait := soonest
	for i := 1; i < p.failures && wait < latest; i++ {
		wait += wait / 2
	}
	return min(wait, latest)
}
