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

// A Cluster is a Kubernetes with Pillion that faults are done to.
type Cluster interface {
	ground.Ground
	APIServers() []*ground.APIServer
}

// A run does faults to a cluster under load.
type run struct {
	g        Cluster
	node     *ground.Node         // the same, if it is one
	plane    *ground.ControlPlane // the same, if it is one
	checkout ground.Checkout
	out      io.Writer
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	load     *load
	asks     string                                    // what namespaces ask for
	byHand   bool                                      // enforced namespaces are labelled by hand
	chart    []admissionregistrationv1.MutatingWebhook // the entries as the chart has them
	windows  map[string]Window
	clocks   string         // see Plan
	late     []string       // namespaces that the round has made
	streams  sync.WaitGroup // of these namespaces

	mu    sync.Mutex
	log   Log
	edits int
}

// everything is what pods of each kind are to have.
func everything() map[Kind][]string {
	all := []string{librarySidecar, askedTemplate}
	return map[Kind][]string{NeverAsked: nil, Enabled: all, Enforced: all, Required: {selectingTemplate}}
}

// newRun returns a run on the cluster, with a client for each of its API servers.
func newRun(g Cluster, checkout ground.Checkout, wants map[Kind][]string, load *load, out io.Writer) (*run, error) {
	r := &run{g: g, checkout: checkout, out: out, load: load, asks: asksAll}
	r.node, _ = g.(*ground.Node)
	r.plane, _ = g.(*ground.ControlPlane)
	libraryVersions := []version{{name: libraryVersion}}
	r.log = Log{Wants: wants, Versions: map[string][]version{librarySidecar: libraryVersions}, Closed: map[string]*History{}}
	config, client, err := measure.Connect(g.Kubeconfig())
	if err != nil {
		return nil, err
	}
	r.client = client
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	for _, server := range g.APIServers() {
		_, client, err := measure.Connect(server.Kubeconfig)
		if err != nil {
			return nil, err
		}
		r.load.clients = append(r.load.clients, client)
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
	for kind := range r.log.Wants {
		streams.Go(func() { r.load.stream(sending, kind, namespaceOf(kind)) })
	}
	err := work(ctx)
	stopSending()
	streams.Wait()
	return err
}

// prepare makes templates and namespaces, and returns when pods come as they should.
func (r *run) prepare(ctx context.Context, background *sync.WaitGroup) error {
	if slices.Contains(r.log.Wants[Enabled], askedTemplate) {
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
	for kind := range r.log.Wants {
		if err := r.makeNamespace(ctx, namespaceOf(kind), kind); err != nil {
			return err
		}
	}
	return r.sound(ctx)
}

// see notes whether a namespace fails closed, as an API server tells it.
func (r *run) see(ns *corev1.Namespace, deleted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log.Closed[ns.Name] == nil {
		r.log.Closed[ns.Name] = &History{}
	}
	r.log.Closed[ns.Name].Set(time.Now(), !deleted && ns.Labels[injectionLabel] == closedValue)
}

// seeEntries notes whether the entries call Pillion where the chart has it, and refuse where it has it.
func (r *run) seeEntries(c *admissionregistrationv1.MutatingWebhookConfiguration, deleted bool) {
	same := func(a, b admissionregistrationv1.MutatingWebhook) bool {
		return *a.FailurePolicy == *b.FailurePolicy && equality.Semantic.DeepEqual(a.Rules, b.Rules) && equality.Semantic.DeepEqual(a.NamespaceSelector, b.NamespaceSelector)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Damaged.Set(time.Now(), deleted || !slices.EqualFunc(c.Webhooks, r.chart, same))
}

// sound waits until a pod of each kind comes as it should through each API server.
func (r *run) sound(ctx context.Context) error {
	return measure.Within(ctx, againLimit, func() error {
		for _, client := range r.load.clients {
			for kind := range r.log.Wants {
				if err := r.soundFor(ctx, client, kind); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (r *run) soundFor(ctx context.Context, client kubernetes.Interface, kind Kind) error {
	namespace := namespaceOf(kind)
	p := try(ctx, client, kind, namespace, newPod(0), false)
	r.mu.Lock()
	v, why := r.log.Judge(p)
	closed, _ := r.log.closed(namespace, p.Began, p.Ended)
	r.mu.Unlock()
	if v != good {
		return fmt.Errorf("a pod of %s: %s", namespace, cmp.Or(why, string(v)))
	}
	if want := kind == Enforced || kind == Required; closed != want {
		return fmt.Errorf("%s fails closed: %v, want %v", namespace, closed, want)
	}
	return nil
}

// round does the steps at once. It returns when no fault explains anything any more and all is well,
// and counts what became of the pods.
func (r *run) round(ctx context.Context, steps []Step) (c counts, err error) {
	lasting, end := context.WithCancel(ctx)
	defer r.streams.Wait()
	defer end()
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	var recovery time.Duration
	for i, s := range steps {
		recovery = max(recovery, r.effect(s.fault).longest())
		all.Go(func() { errs[i] = r.do(lasting, s) })
	}
	all.Wait()
	if err = errors.Join(errs...); err == nil {
		err = measure.Sleep(ctx, recovery+strict)
	}
	if err == nil {
		err = r.sound(ctx)
	}
	c = r.judge()
	for _, s := range steps {
		if err == nil && s.after != nil {
			err = s.after(ctx, r, s)
		}
	}
	end()
	r.streams.Wait()
	for _, name := range r.late {
		err = errors.Join(err, r.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
	}
	r.late = nil
	return c, err
}

// effect is what a fault may do to pods.
func (r *run) effect(f fault) Effect {
	return Effect{r.windows[f.name], cmp.Or(f.denied, never), cmp.Or(f.stale, never), cmp.Or(f.elsewhere, never)}
}

// do does one fault, and has it mended. What it starts goes on until ctx ends.
func (r *run) do(ctx context.Context, s Step) error {
	if err := measure.Sleep(ctx, s.After); err != nil {
		return err
	}
	ended := r.begin(Fault{Step: s, Effect: r.effect(s.fault), Began: time.Now()})
	err := s.do(ctx, r, s)
	if err == nil && s.mend != nil {
		if err = measure.Sleep(ctx, s.Hold); err == nil {
			ended()
			err = s.mend(ctx, r, s)
		}
	} else {
		ended()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// begin notes a fault, and returns what notes its end.
func (r *run) begin(f Fault) (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.log.Faults)
	r.log.Faults = append(r.log.Faults, f)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log.Faults[i].Ended = time.Now()
	}
}

// counts is what became of pods.
type counts struct {
	tried map[verdict]int
	took  []time.Duration
	last  time.Time // when the last pod was sent that was refused or bare
	// refusals are the pods that were not created, whatever they count as, and wrongRefusals those
	// that count as wrong.
	refusals, wrongRefusals int
}

func (c counts) all() int { return len(c.took) }

// add adds what became of more pods.
func (c *counts) add(more counts) {
	if c.tried == nil {
		c.tried = map[verdict]int{}
	}
	for v, n := range more.tried {
		c.tried[v] += n
	}
	c.took = append(c.took, more.took...)
	c.refusals, c.wrongRefusals = c.refusals+more.refusals, c.wrongRefusals+more.wrongRefusals
}

// judge judges the pods since the last time. It tells some of each verdict, and the faults that have to do
// with the wrong ones.
func (r *run) judge() counts {
	pods := r.load.take()
	slices.SortFunc(pods, func(a, b Pod) int { return a.Began.Compare(b.Began) })
	c := counts{tried: map[verdict]int{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pods {
		v, why := r.log.Judge(p)
		c.tried[v]++
		c.took = append(c.took, p.Ended.Sub(p.Began))
		if v == good {
			continue
		}
		c.last = p.Began
		if p.refusal() != "" {
			c.refusals++
		}
		if p.refusal() != "" && v == wrong {
			c.wrongRefusals++
		}
		if c.tried[v] > mostTold {
			continue
		}
		text := strings.Join(strings.Fields(cmp.Or(why, p.refusal())), " ")
		r.say("  %s: pod sent %s to %s, answered after %s: %.600s", v, p.Began.Format(clock), p.Namespace, p.Ended.Sub(p.Began).Round(time.Millisecond), text)
		if v == wrong {
			for _, f := range r.log.Active(p) {
				r.say("    active: %s", f)
			}
		}
	}
	return c
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
