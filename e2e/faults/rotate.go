package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// RotationReplicas is how many replicas run while certificates are replaced. RotationLag is for
// Options.Lag of the ground: the second API server sees each bundle late, as in a cluster that is
// busy. A hand-over that does not wait for it fails.
const (
	RotationReplicas = 3
	RotationLag      = 200 * time.Millisecond
)

// RotationValues are the chart's values: certificates that live for seconds, so that a minute holds
// what a cluster meets in years. All else is as it is for everybody.
func RotationValues() []string {
	return []string{
		"--set", "library={" + librarySidecar + "}",
		"--set", "certs.caDuration=10s", "--set", "certs.leafDuration=4s", "--set", "certs.settle=1s",
		"--set", "shutdown.delaySeconds=1",
	}
}

// What a rotation does at least: CAs that come to sign, leaves that are served, and starts of all
// replicas together beside those that run; then how often each damage is done.
const (
	rotatedCAs, rotatedLeaves, rotatedStarts = 20, 100, 50
	rotationLimit                            = 15 * time.Minute
	damages                                  = 16
)

// What is promised of a whole rotation: pods a second in the planned part, or else it shows little, and
// how long a damage may be felt.
const (
	leastRate = 50
	healLimit = time.Second
)

// A Rotation counts what came of replacing certificates.
type Rotation struct {
	Tried int
	// Failed are pods that were refused, and Uninjected pods without their sidecars, that no damage explains.
	Failed, Uninjected int
	// RefusedDamaged are pods that were refused because of a damage.
	RefusedDamaged int
	// Heal are the times from each damage of a caBundle until the last pod that it harmed was sent.
	Heal []time.Duration
	// Connections were made while nothing was damaged, and Broken of them were not verified.
	Connections, Broken int
	CAs, Signed, Leaves int
	// Rate is how many pods a second were tried in the planned part.
	Rate float64
}

// String is the line that `make rotate` ends with.
func (r Rotation) String() string {
	return fmt.Sprintf("ROTATE tried=%d failed=%d uninjected=%d refused_damaged=%d heal_p50_ms=%d heal_p99_ms=%d",
		r.Tried, r.Failed, r.Uninjected, r.RefusedDamaged, measure.Quantile(r.Heal, 0.5).Milliseconds(), measure.Quantile(r.Heal, 0.99).Milliseconds())
}

// Cost is what certificates cost, though nothing was damaged. It is empty as promised.
func (r Rotation) Cost() []string {
	var wrong []string
	for what, n := range map[string]int{
		"pods were refused":                 r.Failed,
		"pods lack their sidecar":           r.Uninjected,
		"new connections were not verified": r.Broken,
	} {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s, want none", n, what))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// Wrong is what is not as promised of a whole rotation.
func (r Rotation) Wrong() []string {
	wrong := r.Cost()
	if p := measure.Quantile(r.Heal, 0.99); p >= healLimit {
		wrong = append(wrong, fmt.Sprintf("a damage was felt for %s, want less than %s", p.Round(time.Millisecond), healLimit))
	}
	if r.Rate < leastRate {
		wrong = append(wrong, fmt.Sprintf("%.0f pods a second in the planned part, want at least %d: this machine is too busy to show anything", r.Rate, leastRate))
	}
	return wrong
}

// A rotating is a rotation that is done.
type rotating struct {
	Rotation
	*run
	seen *certificates
}

// rotate does work on a ground with a Pillion that offers librarySidecar while pods are created and
// connections made.
func rotate(ctx context.Context, g *ground.ControlPlane, checkout ground.Checkout, out io.Writer, work func(context.Context, *rotating) error) (Rotation, error) {
	wants := map[Kind][]string{Enabled: {librarySidecar}, Enforced: {librarySidecar}}
	run, err := newRun(g, checkout, wants, &load{pace: 25 * time.Millisecond}, out)
	if err != nil {
		return Rotation{}, err
	}
	run.asks, run.byHand = librarySidecar, true
	r := &rotating{run: run}
	if r.seen, err = newCertificates(ctx, run.load.clients); err != nil {
		return Rotation{}, err
	}
	err = run.underLoad(ctx, func(ctx context.Context) error {
		run.load.take()
		following, stop := context.WithCancel(ctx)
		var background sync.WaitGroup
		defer background.Wait()
		defer stop()
		background.Go(func() { r.seen.follow(following) })
		return work(ctx, r)
	})
	r.count()
	r.CAs, r.Signed, r.Leaves = r.seen.counts()
	return r.Rotation, err
}

// count counts what became of pods since the last time, and returns when the last one was sent that was harmed.
func (r *rotating) count() (last time.Time) {
	c := r.judge()
	r.Tried += c.all()
	r.Failed += c.wrongRefusals
	r.Uninjected += c.tried[wrong] - c.wrongRefusals
	r.RefusedDamaged += c.refusals - c.wrongRefusals
	return c.last
}

// countConnections counts the connections since the last time, which all had to be verified.
func (r *rotating) countConnections() {
	broken, made := r.seen.connections()
	for _, b := range broken[:min(mostTold, len(broken))] {
		r.say("  connection at %s", b)
	}
	r.Connections, r.Broken = r.Connections+made, r.Broken+len(broken)
}

// Rotate replaces CAs, leaves and replicas on a ground with two API servers and balanced replicas, with
// RotationValues, and then damages caBundles and the CA's Secret.
func Rotate(ctx context.Context, g *measure.Cluster, out io.Writer) (Rotation, error) {
	return rotate(ctx, g.ControlPlane, g.Checkout, out, func(ctx context.Context, r *rotating) error {
		return errors.Join(r.replace(ctx), r.damage(ctx))
	})
}

// atLeast is how long Under goes on, so that what comes after the work shows, too.
const atLeast = 3 * time.Second

// Under counts pods and connections while work is done, in which nothing is damaged.
func Under(ctx context.Context, g *ground.ControlPlane, checkout ground.Checkout, out io.Writer, work func(context.Context) error) (Rotation, error) {
	return rotate(ctx, g, checkout, out, func(ctx context.Context, r *rotating) error {
		began := time.Now()
		err := work(ctx)
		time.Sleep(atLeast - time.Since(began))
		r.countConnections()
		return err
	})
}

// replace replaces everything in time, all at once.
func (r *rotating) replace(ctx context.Context) error {
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, rotationLimit, fmt.Errorf("the planned part is not done after %s", rotationLimit))
	defer cancel()
	for starts := 0; ; {
		cas, signed, leaves := r.seen.counts()
		if starts >= rotatedStarts && signed > rotatedCAs && leaves >= rotatedLeaves {
			r.count()
			r.countConnections()
			seconds := time.Since(began).Seconds()
			r.Rate = float64(r.Tried) / seconds
			r.say("planned: in %.0f s %d times another CA came to sign, %d CAs were made, %d leaves served, %d replicas started together %d times", seconds, signed-1, cas, leaves, RotationReplicas, starts)
			r.say("planned: %d pods (%.0f a second): %d failed, %d not injected; %d new connections, each verified as an API server does: %d failed", r.Tried, r.Rate, r.Failed, r.Uninjected, r.Connections, r.Broken)
			return nil
		}
		if limited.Err() != nil {
			return context.Cause(limited)
		}
		if starts >= rotatedStarts {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if starts%10 == 0 {
			r.say("  %3.0f s: %d CAs, %d leaves, %d starts", time.Since(began).Seconds(), cas, leaves, starts)
		}
		if err := r.plane.Replace(limited, ground.Namespace); err != nil {
			return err
		}
		starts++
	}
}

// damage does one damage after another, each when the last one is healed.
func (r *rotating) damage(ctx context.Context) error {
	r.windows = map[string]Window{"bundles": {healLimit, healLimit}, "secret": {never, never}}
	for n := range uint64(damages) {
		for _, f := range []fault{{name: "bundles", do: emptyBundles}, {name: "bundles", do: foreignBundles}, {name: "secret", do: damageSecret}} {
			began := time.Now()
			if err := r.do(ctx, Step{fault: f, Name: f.name, Pick: n}); err != nil {
				return err
			}
			if err := measure.Sleep(ctx, healLimit+settle); err != nil {
				return err
			}
			if err := r.sound(ctx); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			last := r.count()
			if f.name == "bundles" {
				r.Heal = append(r.Heal, max(0, last.Sub(began)))
			}
		}
	}
	r.say("damage: %d caBundles and %d Secrets: %d pods refused", 2*damages, damages, r.RefusedDamaged)
	return nil
}
