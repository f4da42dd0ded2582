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
	// interval is the time after a successful proof. It varies by a fifth, so that replicas
	// that start together do not prove at the same time.
	interval = 30 * time.Second
	// firstPause is the time after the first failed proof. It grows to lastPause.
	firstPause = time.Second
	lastPause  = 10 * time.Second
	// maxFailures is the number of failures in a row that withdraws the proof.
	maxFailures = 3
	// logInterval is the number of failures between two lines in the log: ten minutes.
	logInterval = 60
	// readyInterval is the pause between two checks of Options.Ready.
	readyInterval = 50 * time.Millisecond
)

// Options are what [New] needs. All fields are required.
type Options struct {
	// Namespace is the proof namespace.
	Namespace string
	// Ready returns nil once the replica can answer reviews.
	Ready func() error
	// Create creates a pod in the proof namespace by server-side dry run, and returns the
	// API server's answer. Timeout bounds it.
	Create  func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Timeout time.Duration
	Logger  *slog.Logger
}

// Prover makes proofs. [New] returns one.
type Prover struct {
	options Options

	mu        sync.Mutex
	listeners []func()
	proven    bool
	// failures counts the failures since the last success. succeeded and failed count all proofs.
	failures          int
	succeeded, failed int
}

// New returns a prover that does nothing until [Prover.Run] runs.
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
	if !waiting.UntilReady(ctx, readyInterval, p.options.Ready) {
		return nil
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
	if p.failures >= maxFailures {
		p.proven = false
	}
	if p.failures%logInterval == maxFailures {
		p.options.Logger.Error("the proof that pods are injected fails: no namespace becomes enforced until it succeeds; enforced ones stay so. For the cause run: pillion check", "failures", p.failures, "error", failure)
	}
	wait := firstPause
	for i := 1; i < p.failures && wait < lastPause; i++ {
		wait += wait / 2
	}
	return min(wait, lastPause)
}
