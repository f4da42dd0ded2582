package faults

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// RotationReplicas is how many replicas run while certificates are replaced.
const RotationReplicas = 3

// RotationLag is for Options.Lag of the ground: the second API server sees each bundle late, as in a
// cluster that is busy. A hand-over that does not wait for it fails.
const RotationLag = 200 * time.Millisecond

// RotationValues are the chart's values: certificates that live for seconds, so that a minute holds
// what a cluster meets in years. All else is as it is for everybody.
func RotationValues() []string {
	return []string{
		"--set", "library={" + librarySidecar + "}",
		"--set", "certs.caDuration=10s", "--set", "certs.leafDuration=4s", "--set", "certs.settle=1s",
		"--set", "shutdown.delaySeconds=1",
	}
}

// A rotation has so many CAs come to sign, leaves served, and starts of all replicas together beside
// those that run, at least; then it does each damage so often.
const (
	rotatedCAs, rotatedLeaves, rotatedStarts = 20, 100, 50
	rotationLimit                            = 15 * time.Minute
	damages                                  = 16
)

// healLimit is how long a damage may be felt, as is promised.
const healLimit = time.Second

// A Rotation counts what came of replacing certificates.
type Rotation struct {
	Tried int
	// Failed are pods that were refused, and Uninjected pods without their sidecars, that no damage explains.
	Failed, Uninjected int
	// RefusedDamaged are pods that were refused because of a damage.
	RefusedDamaged int
	// Heal are the times from each damage until it was healed, and the last pod that it harmed was sent.
	Heal []time.Duration
	// Connections were made while nothing was damaged, and Broken of them were not verified.
	Connections, Broken int
	CAs, Signed, Leaves int
}

// String is the line that `make rotate` ends with.
func (r Rotation) String() string {
	return fmt.Sprintf("ROTATE tried=%d failed=%d uninjected=%d refused_damaged=%d heal_p50_ms=%d heal_p99_ms=%d",
		r.Tried, r.Failed, r.Uninjected, r.RefusedDamaged, measure.Quantile(r.Heal, 0.5).Milliseconds(), measure.Quantile(r.Heal, 0.99).Milliseconds())
}

// Wrong is all that is not as promised.
func (r Rotation) Wrong() []string {
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
	if p := measure.Quantile(r.Heal, 0.99); p >= healLimit {
		wrong = append(wrong, fmt.Sprintf("a damage was felt for %s, want less than %s", p.Round(time.Millisecond), healLimit))
	}
	if r.Tried < fewest {
		wrong = append(wrong, fmt.Sprintf("%d pods were tried, want %d", r.Tried, fewest))
	}
	slices.Sort(wrong)
	return wrong
}

// A rotator replaces certificates.
type rotator struct {
	Rotation
	*run
	seen *certificates
}

// rotate does work on a ground with a Pillion that offers librarySidecar while pods are created and
// connections made, at that pace in each namespace and for each API server.
func rotate(ctx context.Context, g *ground.ControlPlane, checkout ground.Checkout, pace time.Duration, out io.Writer, work func(context.Context, *rotator) error) (Rotation, error) {
	wants := map[namespaceKind][]string{enabled: {librarySidecar}, enforced: {librarySidecar}}
	run, err := newRun(g, checkout, wants, &load{pace: pace}, out)
	if err != nil {
		return Rotation{}, err
	}
	run.plane, run.asks, run.byHand = g, librarySidecar, true
	r := &rotator{run: run}
	if r.seen, err = newCertificates(ctx, run.load.clients); err != nil {
		return Rotation{}, err
	}
	err = run.underLoad(ctx, func(ctx context.Context) error {
		following, stop := context.WithCancel(ctx)
		var background sync.WaitGroup
		defer background.Wait()
		defer stop()
		background.Go(func() { r.seen.follow(following, pace) })
		return work(ctx, r)
	})
	_, countErr := r.count(ctx)
	r.CAs, r.Signed, r.Leaves = r.seen.counts()
	return r.Rotation, errors.Join(err, countErr)
}

// count counts the pods since the last time, and returns when the last one was sent that was harmed.
func (r *rotator) count(ctx context.Context) (last time.Time, err error) {
	c, err := r.run.count(ctx)
	r.Tried += c.all()
	r.Failed += c.wrongRefusals
	r.Uninjected += c.of[wrong] - c.wrongRefusals
	r.RefusedDamaged += c.refusals - c.wrongRefusals
	return c.last, err
}

// countConnections counts the connections since the last time, which all had to be verified.
func (r *rotator) countConnections() {
	broken, made := r.seen.connections()
	for _, b := range broken[:min(mostTold, len(broken))] {
		r.say("  connection at %s", b)
	}
	r.Connections, r.Broken = r.Connections+made, r.Broken+len(broken)
}

// Rotate replaces CAs, leaves and replicas on a ground with two API servers and balanced replicas, with
// RotationValues, and then damages caBundles and the CA's Secret.
func Rotate(ctx context.Context, g *measure.Cluster, out io.Writer) (Rotation, error) {
	return rotate(ctx, g.ControlPlane, g.Checkout, 25*time.Millisecond, out, func(ctx context.Context, r *rotator) error {
		if err := r.replaceAll(ctx); err != nil {
			return err
		}
		return r.damageAll(ctx)
	})
}

// atLeast is how long Under goes on, so that what comes after the work shows, too.
const atLeast = 3 * time.Second

// Under counts pods and connections while work is done, in which nothing is damaged. They are few: other tests
// run beside it.
func Under(ctx context.Context, g *ground.ControlPlane, checkout ground.Checkout, out io.Writer, work func(context.Context) error) (Rotation, error) {
	return rotate(ctx, g, checkout, 100*time.Millisecond, out, func(ctx context.Context, r *rotator) error {
		began := time.Now()
		err := work(ctx)
		time.Sleep(atLeast - time.Since(began))
		r.countConnections()
		return err
	})
}

// replaceAll replaces certificates and replicas in time, all at once.
func (r *rotator) replaceAll(ctx context.Context) error {
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, rotationLimit, fmt.Errorf("certificates are not replaced after %s", rotationLimit))
	defer cancel()
	for starts := 0; ; {
		cas, signed, leaves := r.seen.counts()
		if starts%10 == 0 {
			r.say("  %3.0f s: %d CAs were made, %d of them came to sign, %d leaves served, %d replicas started together %d times", time.Since(began).Seconds(), cas, signed, leaves, RotationReplicas, starts)
		}
		switch {
		case starts >= rotatedStarts && signed > rotatedCAs && leaves >= rotatedLeaves:
			r.countConnections()
			_, err := r.count(ctx)
			r.say("planned: %d pods in %.0f s: %d failed, %d not injected; %d new connections, each verified as an API server does: %d failed", r.Tried, time.Since(began).Seconds(), r.Failed, r.Uninjected, r.Connections, r.Broken)
			return err
		case limited.Err() != nil:
			return context.Cause(limited)
		case starts >= rotatedStarts:
			time.Sleep(time.Second)
			continue
		}
		if err := r.plane.Replace(limited, ground.Namespace); err != nil {
			return err
		}
		starts++
	}
}

// damageAll does one damage after another, each when the last one is healed.
func (r *rotator) damageAll(ctx context.Context) error {
	r.windows = map[string]window{"caBundles emptied": {healLimit, healLimit}, "foreign caBundles": {healLimit, healLimit}}
	for n := range uint64(damages) {
		for _, f := range []fault{{name: "caBundles emptied", do: emptyBundles}, {name: "foreign caBundles", do: foreignBundles}, {name: "Secret damaged", do: damageSecret}} {
			if err := r.damage(ctx, step{fault: f, round: int(n), pick: n}); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	r.say("damage: %d of each kind, healed within %s: %d pods refused", damages, slices.Max(r.Heal).Round(time.Millisecond), r.RefusedDamaged)
	return nil
}

// damage does a damage, and notes when it was healed.
func (r *rotator) damage(ctx context.Context, s step) error {
	if err := r.do(ctx, s); err != nil {
		return err
	}
	done := r.log.faults[len(r.log.faults)-1].began
	if err := measure.Within(ctx, 10*time.Second, func() error { return r.secretIsSound(ctx) }); err != nil {
		return err
	}
	healed := time.Now()
	if err := measure.Sleep(ctx, healLimit+settle); err != nil {
		return err
	}
	if err := r.sound(ctx); err != nil {
		return err
	}
	last, err := r.count(ctx)
	if last.After(healed) {
		healed = last
	}
	r.Heal = append(r.Heal, healed.Sub(done))
	return err
}

// secretIsSound is nil when the CA's Secret holds a CA and its key.
func (r *rotator) secretIsSound(ctx context.Context) error {
	s, err := r.client.CoreV1().Secrets(ground.Namespace).Get(ctx, caSecret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if block, _ := pem.Decode(s.Data["tls.key"]); block == nil || len(s.Data["tls.crt"]) == 0 {
		return errors.New("the Secret holds no CA")
	}
	return nil
}
