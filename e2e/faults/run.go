package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

const (
	// strict is how long pods are sent after a round when no fault explains anything any more.
	strict = 3 * time.Second
	// againLimit is how long an admin or a tool tries, and how long all may take to be well again.
	againLimit = 2 * time.Minute
	// mostTold is how many pods of each verdict a round tells.
	mostTold = 3
)

// A cluster is a Kubernetes with Pillion that faults are done to.
type cluster interface {
	ground.Ground
	Kubeconfigs() []string // one for each API server
	APIServers() []*ground.APIServer
}

// A run does faults to a cluster under load.
type run struct {
	objects
	g        cluster
	node     *ground.Node         // the same, where faults of a node are done
	plane    *ground.ControlPlane // the same, where others are done
	checkout ground.Checkout
	out      io.Writer
	load     *load
	windows  map[string]window
	clocks   string           // see Plan
	cut      []ground.Replica // that do not reach kube-apiserver
	late     []string         // namespaces that the round has made
	streams  sync.WaitGroup   // of these namespaces
}

// objects are those that a run makes, and the log of what is done to them.
type objects struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	asks    string                                    // the templates that namespaces ask for
	byHand  bool                                      // enforced namespaces are labelled by hand
	chart   []admissionregistrationv1.MutatingWebhook // the entries as the chart has them

	mu    sync.Mutex
	log   log
	edits int
}

// everything is what pods of each kind are to have.
func everything() map[namespaceKind][]string {
	all := []string{librarySidecar, askedTemplate}
	return map[namespaceKind][]string{neverAsked: nil, enabled: all, enforced: all, selected: {selectingTemplate}}
}

// newRun returns a run on the cluster, with a client for each of its API servers.
func newRun(g cluster, checkout ground.Checkout, wants map[namespaceKind][]string, l *load, out io.Writer) (_ *run, err error) {
	r := &run{g: g, checkout: checkout, out: out, load: l}
	l.open = map[int]bool{}
	if l.clients, err = measure.Clients(g.Kubeconfigs()); err != nil {
		return nil, err
	}
	r.asks = asksAll
	r.log = log{wants: wants, versions: map[string][]version{librarySidecar: {{name: libraryVersion}}}, closed: map[string]*history{}}
	config, client, err := measure.Connect(g.Kubeconfig())
	if err != nil {
		return nil, err
	}
	r.client = client
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if r.windows, err = readWindows(checkout); err != nil {
		return nil, err
	}
	return r, nil
}

// underLoad makes templates and namespaces, and does work while pods are created in these.
func (r *run) underLoad(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	var background, streams sync.WaitGroup
	defer background.Wait()
	defer stop()
	if err := r.prepare(ctx, &background); err != nil {
		return fmt.Errorf("preparing the load: %w", err)
	}
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	for kind := range r.log.wants {
		streams.Go(func() { r.load.stream(sending, kind, namespaceOf(kind)) })
	}
	err := work(ctx)
	stopSending()
	streams.Wait()
	return err
}

// prepare makes templates and namespaces, and returns when pods come as they should.
func (r *run) prepare(ctx context.Context, background *sync.WaitGroup) error {
	if r.asks == asksAll {
		if err := r.putTemplates(ctx); err != nil {
			return err
		}
	}
	configurations := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := configurations.Get(ctx, ground.Release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.chart = c.Webhooks
	background.Go(func() {
		measure.Follow(ctx, "", r.client.CoreV1().Namespaces().Watch, func(e watch.Event) {
			if ns, ok := e.Object.(*corev1.Namespace); ok {
				r.see(ns, e.Type == watch.Deleted)
			}
		})
	})
	background.Go(func() {
		measure.Follow(ctx, ground.Release, configurations.Watch, func(e watch.Event) {
			if c, ok := e.Object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
				r.seeEntries(c, e.Type == watch.Deleted)
			}
		})
	})
	for kind := range r.log.wants {
		if err := r.makeNamespace(ctx, namespaceOf(kind), kind); err != nil {
			return err
		}
	}
	// An API server may be about to learn of a change that was before.
	if err := measure.Sleep(ctx, settle); err != nil {
		return err
	}
	return r.sound(ctx)
}

// see notes whether a namespace fails closed, as an API server tells it.
func (r *run) see(ns *corev1.Namespace, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log.closed[ns.Name] == nil {
		r.log.closed[ns.Name] = &history{}
	}
	r.log.closed[ns.Name].set(time.Now(), !deleted && ns.Labels[injectionLabel] == closedValue)
}

// seeEntries notes whether the entries call Pillion where the chart has it, and refuse where it has it.
func (r *run) seeEntries(c *admissionregistrationv1.MutatingWebhookConfiguration, deleted bool) {
	same := func(a, b admissionregistrationv1.MutatingWebhook) bool {
		return *a.FailurePolicy == *b.FailurePolicy && equality.Semantic.DeepEqual(a.Rules, b.Rules) && equality.Semantic.DeepEqual(a.NamespaceSelector, b.NamespaceSelector)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.edited.set(time.Now(), deleted || !slices.EqualFunc(c.Webhooks, r.chart, same))
}

// sound waits until a pod of each kind comes as it should through each API server.
func (r *run) sound(ctx context.Context) error {
	return measure.Within(ctx, againLimit, func() error {
		for _, client := range r.load.clients {
			for kind := range r.log.wants {
				if err := r.soundFor(ctx, client, kind); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (r *run) soundFor(ctx context.Context, client kubernetes.Interface, kind namespaceKind) error {
	namespace := namespaceOf(kind)
	a := try(ctx, client, kind, namespace, newPod(0), false)
	r.mu.Lock()
	v, why := r.log.verdict(a)
	closed, _ := r.log.failsClosed(namespace, a.began, a.ended)
	r.mu.Unlock()
	if v != good {
		return fmt.Errorf("a pod of %s: %s", namespace, cmp.Or(why, string(v)))
	}
	if want := kind == enforced || kind == selected; closed != want {
		return fmt.Errorf("%s fails closed: %v, want %v", namespace, closed, want)
	}
	return nil
}

// round does the steps at once. It returns when no fault explains anything any more and all is well,
// and counts what became of the pods. After it, clear has to be called.
func (r *run) round(ctx context.Context, steps []step) (counts, error) {
	lasting, end := context.WithCancel(ctx)
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	var recovery time.Duration
	for i, s := range steps {
		recovery = max(recovery, r.effect(s.fault).longest())
		all.Go(func() { errs[i] = r.do(lasting, s) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = measure.Sleep(ctx, recovery+strict)
	}
	if err == nil {
		err = r.sound(ctx)
	}
	end()
	r.streams.Wait()
	c, countErr := r.count(ctx)
	return c, errors.Join(err, countErr)
}

// clear removes what the steps have left.
func (r *run) clear(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if s.after != nil {
			if err := s.after(ctx, r, s); err != nil {
				return fmt.Errorf("clearing up after %s: %w", s.name, err)
			}
		}
	}
	for _, name := range r.late {
		if err := r.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	r.late = nil
	return nil
}

// effect is the harm that a fault may do to pods.
func (r *run) effect(f fault) effect {
	w, ok := r.windows[f.name]
	if !ok {
		w = window{never, never}
	}
	return effect{w, f.denied, cmp.Or(f.stale, never), cmp.Or(f.elsewhere, never)}
}

// do does one fault, and has it mended. Streams that it starts go on until ctx ends.
func (r *run) do(ctx context.Context, s step) error {
	if err := measure.Sleep(ctx, s.wait); err != nil {
		return err
	}
	ended := r.begin(occurrence{step: s, effect: r.effect(s.fault), began: time.Now()})
	err := s.do(ctx, r, s)
	if err == nil && s.mend != nil {
		err = measure.Sleep(ctx, s.hold)
	}
	ended()
	if err == nil && s.mend != nil {
		err = s.mend(ctx, r, s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// begin notes a fault, and returns what notes its end.
func (r *run) begin(o occurrence) (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.log.faults)
	r.log.faults = append(r.log.faults, o)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log.faults[i].ended = time.Now()
	}
}

// counts is what became of pods.
type counts struct {
	of    map[verdict]int
	times []time.Duration // until each pod was answered, but by something else than Pillion
	last  time.Time       // when the last pod was sent that was refused or bare
	// refusals are the pods that were not created, whatever they count as, and wrongRefusals those
	// that count as wrong.
	refusals, wrongRefusals int
}

func (c counts) all() (n int) {
	for _, more := range c.of {
		n += more
	}
	return n
}

func (c *counts) add(more counts) {
	if c.of == nil {
		c.of = map[verdict]int{}
	}
	for v, n := range more.of {
		c.of[v] += n
	}
	c.times = append(c.times, more.times...)
	c.refusals, c.wrongRefusals = c.refusals+more.refusals, c.wrongRefusals+more.wrongRefusals
}

// count waits for the pods that were sent until now, and counts those since the last time. It tells some
// of each verdict, and the faults that have to do with the wrong ones.
func (r *run) count(ctx context.Context) (counts, error) {
	attempts, err := r.load.answered(ctx)
	slices.SortFunc(attempts, func(a, b attempt) int { return a.began.Compare(b.began) })
	c := counts{of: map[verdict]int{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range attempts {
		v, why := r.log.verdict(a)
		c.of[v]++
		if a.refusal() != "" {
			c.refusals++
		}
		if v != elsewhere {
			c.times = append(c.times, a.ended.Sub(a.began))
		}
		if v == good || v == elsewhere {
			continue
		}
		c.last = a.began
		if v == wrong && a.refusal() != "" {
			c.wrongRefusals++
		}
		if c.of[v] <= mostTold {
			r.tell(a, v, cmp.Or(why, a.refusal()))
		}
	}
	return c, err
}

// tell writes what became of a pod, and, if that is wrong, the faults that have to do with it.
func (r *run) tell(a attempt, v verdict, why string) {
	why = strings.Join(strings.Fields(why), " ")
	r.say("  %s: pod sent %s to %s, answered after %s: %.600s", v, a.began.Format(clock), a.namespace, a.ended.Sub(a.began).Round(time.Millisecond), why)
	if v == wrong {
		for _, f := range r.log.active(a) {
			r.say("    active: %s", f)
		}
	}
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// again tries what an admin or a tool does until it succeeds: API servers may be away.
func (r *run) again(ctx context.Context, try func(context.Context) error) error {
	return measure.Within(ctx, againLimit, func() error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		err := try(ctx)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		}
		return err
	})
}

// kubectl runs kubectl in Pillion's namespace, and helm runs helm there.
func (r *run) kubectl(ctx context.Context, args ...string) error {
	_, err := ground.Run(ctx, r.g, "kubectl", append([]string{"-n", ground.Namespace}, args...)...)
	return err
}

func (r *run) helm(ctx context.Context, args ...string) error {
	_, err := ground.Run(ctx, r.g, "helm", append(args, "-n", ground.Namespace)...)
	return err
}
