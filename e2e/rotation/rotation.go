package rotation

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Replicas is how many replicas run.
const Replicas = 3

// Lag is for Options.Lag of the ground: the second API server sees each bundle late, as in
// a cluster that is busy. A hand-over that does not wait for it fails.
const Lag = 200 * time.Millisecond

// Values are the chart's values: certificates that live for seconds, so that a minute
// holds what a cluster meets in years. All else is as it is for everybody.
func Values() []string {
	return []string{
		"--set", "library={fluent-bit}", "--set", "replicas=3",
		"--set", "certs.caDuration=10s", "--set", "certs.leafDuration=4s", "--set", "certs.settle=1s",
		"--set", "shutdown.delaySeconds=1",
	}
}

// A Plan is how often what happens, at least.
type Plan struct {
	CAs, Leaves int // replaced in time
	Starts      int // of all replicas together, beside those that run
	Emptied     int // caBundles emptied or replaced by a foreign CA, in all entries
	Recreated   int // the webhook configuration deleted and made anew, without a caBundle
	Secrets     int // the CA's Secret deleted or damaged
	Limit       time.Duration
}

// A Result counts pods.
type Result struct {
	Tried int
	// Failed are those that were refused although nothing was damaged, and Uninjected
	// those created without their sidecar: when nothing was damaged in any namespace,
	// otherwise in the enforced one.
	Failed, Uninjected int
	// RefusedDamaged are those that were refused while a damage was not yet healed, and
	// LetThrough those that the open namespace got without a sidecar in that time.
	RefusedDamaged, LetThrough int
	// Heal are the times from each damage until it was healed, sorted.
	Heal []time.Duration
	// CAs were made, Signed of them came to sign, Leaves were seen.
	CAs, Signed, Leaves, Starts int
	Handshakes, BrokenPlanned   int
	// Rate is how many pods a second were tried in the planned part.
	Rate float64
}

// What is promised of a whole run: pods a second in the planned part, or else it shows
// little, and how long a damage may last.
const (
	leastRate = 50
	healLimit = time.Second
)

// Wrong is what is not as promised.
func (r Result) Wrong() []string {
	var wrong []string
	for what, n := range map[string]int{
		"pods that were refused although nothing was damaged":          r.Failed,
		"pods that were created without their sidecar":                 r.Uninjected,
		"connections that were not verified while nothing was damaged": r.BrokenPlanned,
	} {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s, want none", n, what))
		}
	}
	if p := r.HealedWithin(0.99); p >= healLimit {
		wrong = append(wrong, fmt.Sprintf("a damage lasted %s, want less than %s", p.Round(time.Millisecond), healLimit))
	}
	if r.Rate < leastRate {
		wrong = append(wrong, fmt.Sprintf("%.0f pods a second in the planned part, want at least %d: this machine is too busy to show anything", r.Rate, leastRate))
	}
	slices.Sort(wrong)
	return wrong
}

// HealedWithin is the time within which a share of the damages was healed.
func (r Result) HealedWithin(share float64) time.Duration { return measure.Quantile(r.Heal, share) }

// String is the line that `make rotate` ends with.
func (r Result) String() string {
	return fmt.Sprintf("ROTATE tried=%d failed=%d uninjected=%d refused_damaged=%d heal_p50_ms=%d heal_p99_ms=%d",
		r.Tried, r.Failed, r.Uninjected, r.RefusedDamaged, r.HealedWithin(0.5).Milliseconds(), r.HealedWithin(0.99).Milliseconds())
}

// run is one run of a plan.
type run struct {
	Result
	g        *ground.ControlPlane
	out      io.Writer
	plan     Plan
	load     *load
	observer *observer
}

// Run runs the plan. The error is about the run itself; what is wrong with Pillion is
// counted, and told to out.
func Run(ctx context.Context, g *ground.ControlPlane, plan Plan, out io.Writer) (Result, error) {
	r, err := newRun(ctx, g, plan, out)
	if err != nil {
		return Result{}, err
	}
	err = r.underLoad(ctx, func() error {
		if err := r.planned(ctx); err != nil {
			return err
		}
		return r.damaged(ctx)
	})
	_, r.Tried = r.load.take()
	r.CAs, r.Signed, r.Leaves = r.observer.counts()
	slices.Sort(r.Heal)
	return r.Result, err
}

func newRun(ctx context.Context, g *ground.ControlPlane, plan Plan, out io.Writer) (*run, error) {
	clients, err := measure.Clients(g.Kubeconfigs())
	if err != nil {
		return nil, err
	}
	if err := makeNamespaces(ctx, clients); err != nil {
		return nil, err
	}
	observer, err := newObserver(ctx, clients)
	return &run{g: g, out: out, plan: plan, load: &load{clients: clients}, observer: observer}, err
}

// underLoad does work while pods are created and connections made.
func (r *run) underLoad(ctx context.Context, work func() error) error {
	background, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.load.run(background) })
	running.Go(func() { r.observer.run(background) })
	err := work()
	stop()
	running.Wait()
	return err
}

// sortPlanned counts the outcomes and handshakes so far, none of which may be bad.
func (r *run) sortPlanned() {
	bad, _ := r.load.take()
	for _, o := range bad {
		r.say("  planned: %s", o)
		if o.err != nil {
			r.Failed++
		} else {
			r.Uninjected++
		}
	}
	broken, made := r.observer.handshakes()
	for _, b := range broken[:min(10, len(broken))] {
		r.say("  planned: handshake %s", b)
	}
	r.Handshakes, r.BrokenPlanned = made, len(broken)
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// planned replaces everything in time, all at once.
func (r *run) planned(ctx context.Context) error {
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, r.plan.Limit, fmt.Errorf("the planned part is not done after %s", r.plan.Limit))
	defer cancel()
	said := began
	for {
		cas, signed, leaves := r.observer.counts()
		if time.Since(said) > 20*time.Second {
			said = time.Now()
			r.say("  %3.0f s: %d CAs, %d leaves, %d starts", time.Since(began).Seconds(), cas, leaves, r.Starts)
		}
		if signed > r.plan.CAs && leaves >= r.plan.Leaves && r.Starts >= r.plan.Starts {
			break
		}
		if limited.Err() != nil {
			return context.Cause(limited)
		}
		if r.Starts >= r.plan.Starts {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err := r.g.Replace(limited, ground.Namespace); err != nil {
			return err
		}
		r.Starts++
	}
	r.sortPlanned()
	_, tried := r.load.take()
	cas, signed, leaves := r.observer.counts()
	seconds := time.Since(began).Seconds()
	r.Rate = float64(tried) / seconds
	r.say("planned: in %.0f s %d times another CA came to sign, %d CAs were made, %d leaves served, %d replicas started together %d times", seconds, signed-1, cas, leaves, Replicas, r.Starts)
	r.say("planned: %d pods (%.0f a second): %d failed, %d not injected; %d new connections, each verified as an API server does: %d failed", tried, r.Rate, r.Failed, r.Uninjected, r.Handshakes, r.BrokenPlanned)
	return nil
}

// damaged damages one thing after another, each when the last one is healed.
func (r *run) damaged(ctx context.Context) error {
	foreign, err := ground.NewAuthority() // has signed nothing here
	if err != nil {
		return err
	}
	client := r.load.clients[0]
	before := len(r.Heal)
	for _, d := range []struct {
		what  string
		times int
		do    func(n int) (Damage, error)
	}{
		{"caBundles emptied or replaced", r.plan.Emptied, func(n int) (Damage, error) {
			bundle := []byte(nil)
			if n%4 == 3 {
				bundle = foreign.PEM()
			}
			return SetBundles(ctx, client, bundle)
		}},
		{"configurations recreated", r.plan.Recreated, func(int) (Damage, error) { return r.recreate(ctx) }},
		{"secrets deleted or damaged", r.plan.Secrets, func(n int) (Damage, error) { return DamageSecret(ctx, client, n) }},
	} {
		for n := range d.times {
			if err := r.heal(ctx, d.what, func() (Damage, error) { return d.do(n) }); err != nil {
				return fmt.Errorf("%s: %w", d.what, err)
			}
		}
		times := slices.Sorted(slices.Values(r.Heal[before:]))
		if len(times) > 0 {
			r.say("damage: %d %s, healed within %s to %s", d.times, d.what, times[0].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
		}
		before = len(r.Heal)
	}
	r.say("damage: %d pods refused in that time, %d let through without a sidecar where that is allowed", r.RefusedDamaged, r.LetThrough)
	return nil
}

// grace is how much later than it tells its watchers a kube-apiserver may itself act by a
// webhook configuration.
const grace = 250 * time.Millisecond

// A Damage is something that was done to an object: when, and at which revision of etcd.
type Damage struct {
	at      time.Time
	version uint64
}

// heal does a damage, waits until it is healed, and counts what became of the pods.
func (r *run) heal(ctx context.Context, what string, do func() (Damage, error)) error {
	r.sort(what, time.Time{}, time.Time{})
	began := time.Now()
	done, err := do()
	if err != nil {
		return err
	}
	healed := done.at
	for i := range r.observer.clients {
		var shown time.Time
		err := measure.Within(ctx, 10*time.Second, func() error {
			// Every damage is followed by a write to the configuration: the healing one, or the
			// one that publishes the next CA.
			var err error
			shown, err = r.observer.healthy(ctx, i, done.version+1)
			return err
		})
		if err != nil {
			return err
		}
		if shown.After(healed) {
			healed = shown
		}
	}
	if err := measure.Within(ctx, 10*time.Second, func() error { return secretIsSound(ctx, r.load.clients[0]) }); err != nil {
		return err
	}
	time.Sleep(2 * grace)
	last := r.sort(what, began, healed.Add(grace))
	if last.After(healed) {
		healed = last
	}
	r.Heal = append(r.Heal, healed.Sub(done.at))
	r.observer.handshakes()
	return nil
}

// sort counts the outcomes so far, of which those from until to are owed to the damage. It
// returns the end of the last one of these.
func (r *run) sort(what string, from, to time.Time) (last time.Time) {
	bad, _ := r.load.take()
	for _, o := range bad {
		owed := o.ended.After(from) && o.began.Before(to)
		switch {
		case o.err != nil && owed:
			r.RefusedDamaged++
		case o.err == nil && o.namespace == openNamespace && owed:
			r.LetThrough++
		case o.err != nil:
			r.Failed++
			r.say("  %s, after it was healed: %s", what, o)
		default:
			r.Uninjected++
			r.say("  %s: %s", what, o)
		}
		if owed && o.ended.After(last) {
			last = o.ended
		}
	}
	return last
}

// SetBundles writes the caBundle of every entry. As the other damages it returns the moment
// before the API server was told, from which healing counts.
func SetBundles(ctx context.Context, client kubernetes.Interface, bundle []byte) (Damage, error) {
	var done Damage
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	err := measure.Within(ctx, 5*time.Second, func() error {
		c, err := configurations.Get(ctx, configurationName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = bundle
		}
		done.at = time.Now()
		c, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
		if err == nil {
			done.version = revision(c.ResourceVersion)
		}
		return err
	})
	return done, err
}

// recreate deletes the configuration and makes it anew without a caBundle. Between the two
// there is no webhook that could inject or refuse anything, so the clients wait until
// every API server has the new one.
func (r *run) recreate(ctx context.Context) (Damage, error) {
	configurations := r.load.clients[0].AdmissionregistrationV1().MutatingWebhookConfigurations()
	old, err := configurations.Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil {
		return Damage{}, err
	}
	r.load.gate.Lock()
	defer r.load.gate.Unlock()
	if err := configurations.Delete(ctx, configurationName, metav1.DeleteOptions{}); err != nil {
		return Damage{}, err
	}
	next := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: old.Name, Labels: old.Labels, Annotations: old.Annotations}, Webhooks: old.Webhooks,
	}
	for i := range next.Webhooks {
		next.Webhooks[i].ClientConfig.CABundle = nil
	}
	done := Damage{at: time.Now()}
	made, err := configurations.Create(ctx, next, metav1.CreateOptions{})
	if err != nil {
		return Damage{}, err
	}
	done.version = revision(made.ResourceVersion)
	for i, client := range r.load.clients {
		err := measure.Within(ctx, 5*time.Second, func() error {
			if r.observer.sight(i).version < done.version {
				return errors.New("an API server does not show the new configuration")
			}
			if injected, err := create(ctx, client, enforcedNamespace); err == nil && !injected {
				return errors.New("an API server does not call the new configuration")
			}
			return nil
		})
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// DamageSecret deletes the CA's Secret if n is even, or makes it useless.
func DamageSecret(ctx context.Context, client kubernetes.Interface, n int) (Damage, error) {
	var done Damage
	secrets := client.CoreV1().Secrets(ground.Namespace)
	err := measure.Within(ctx, 5*time.Second, func() error {
		s, err := secrets.Get(ctx, secretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// A list has the revision of all that was written before.
		list, err := secrets.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		done = Damage{time.Now(), revision(list.ResourceVersion)}
		if n%2 == 0 {
			return secrets.Delete(ctx, secretName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &s.ResourceVersion}})
		}
		s.Data["tls.key"] = []byte("no key")
		s, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		if err == nil {
			done.version = revision(s.ResourceVersion)
		}
		return err
	})
	return done, err
}

// secretIsSound is nil when the Secret holds a CA and its key.
func secretIsSound(ctx context.Context, client kubernetes.Interface) error {
	s, err := client.CoreV1().Secrets(ground.Namespace).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if block, _ := pem.Decode(s.Data["tls.key"]); block == nil || len(s.Data["tls.crt"]) == 0 {
		return errors.New("the Secret holds no CA")
	}
	return nil
}

// atLeast is how long Under goes on, so that what comes after the work shows, too.
const atLeast = 3 * time.Second

// Under has the clients create pods while work is done, in which nothing is damaged: every
// pod that is refused or not injected, and every connection that is not verified, counts.
func Under(ctx context.Context, g *ground.ControlPlane, out io.Writer, work func(context.Context) error) (Result, error) {
	r, err := newRun(ctx, g, Plan{}, out)
	if err != nil {
		return Result{}, err
	}
	err = r.underLoad(ctx, func() error {
		began := time.Now()
		err := work(ctx)
		time.Sleep(atLeast - time.Since(began))
		return err
	})
	r.sortPlanned()
	_, r.Tried = r.load.take()
	r.CAs, r.Signed, r.Leaves = r.observer.counts()
	return r.Result, err
}
