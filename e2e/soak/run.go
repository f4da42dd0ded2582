package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/faults"
	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Replicas is how many replicas run: the chart's default.
const Replicas = 2

// NameColumn heads the column of docs/concepts/faults.md that has the names of faults
// that are only done here. The others are those of package faults.
const NameColumn = "in a soak"

// A Plan is what is done.
type Plan struct {
	Seed uint64
	For  time.Duration
	// Clocks is a directory with ahead/pillion-webhook and behind/pillion-webhook, whose clocks are an hour off.
	Clocks string
	// Only chooses among the faults by their names, before the seed does.
	Only *regexp.Regexp
}

// A Result counts.
type Result struct {
	Seed                                          uint64
	Faults, Tried, Admitted, Refused, Wrong, Left int
	P50, P99, Max                                 time.Duration // from a pod's first attempt until it was admitted
	usage
}

// String is the line that `make soak` ends with.
func (r Result) String() string {
	return fmt.Sprintf("SOAK seed=%d faults=%d tried=%d admitted=%d refused=%d wrong=%d p50_ms=%d p99_ms=%d max_ms=%d rss_mb=%d goroutines=%d left=%d",
		r.Seed, r.Faults, r.Tried, r.Admitted, r.Refused, r.Wrong, r.P50.Milliseconds(), r.P99.Milliseconds(), r.Max.Milliseconds(), r.rss>>20, r.goroutines, r.Left)
}

// A run is one soak.
type run struct {
	g        *ground.ControlPlane
	checkout ground.Checkout
	out      io.Writer
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	load     *load
	chart    []admissionregistrationv1.MutatingWebhook // the entries as the chart has them
	windows  map[string]faults.Window
	clocks   string // see Plan

	mu     sync.Mutex
	log    Log
	edits  int
	result Result
}

const (
	// strict is how long pods are sent after each round when no fault explains anything any more.
	strict = 3 * time.Second
	// againLimit is how long what an admin or a tool does is tried.
	againLimit = 2 * time.Minute
	// mostRounds is more than there is time for.
	mostRounds = 10_000
)

// Run does the plan on a ground that is Balanced and has Pillion. The error is about the run itself.
func Run(ctx context.Context, g *measure.Cluster, plan Plan, out io.Writer) (Result, error) {
	r := &run{g: g.ControlPlane, checkout: g.Checkout, client: g.Client, out: out, clocks: plan.Clocks, load: &load{waiting: map[int]string{}}, windows: map[string]faults.Window{}}
	r.log.Templates, r.log.Closed, r.result.Seed = map[string][]version{}, map[string]*faults.History{}, plan.Seed
	chosen, err := r.choose(plan.Only)
	if err != nil {
		return r.result, err
	}
	if r.dynamic, err = dynamic.NewForConfig(g.Config); err != nil {
		return r.result, err
	}
	if r.load.clients, err = measure.Clients(g.Kubeconfigs()); err != nil {
		return r.result, err
	}
	ctx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	if err := r.prepare(ctx, &background); err != nil {
		return r.result, fmt.Errorf("preparing the load: %w", err)
	}
	before, err := r.snapshot(ctx)
	if err != nil {
		return r.result, err
	}
	background.Go(func() { g.Kubelet(ctx, ground.Namespace) })
	sending, stopSending := context.WithCancel(ctx)
	var streams sync.WaitGroup
	for kind, namespace := range namespaces {
		streams.Go(func() { r.load.stream(sending, ctx, kind, namespace) })
	}
	err = r.rounds(ctx, plan, chosen)
	stopSending()
	if err == nil {
		err = r.finish(ctx, before)
	}
	stop()
	streams.Wait()
	return r.result, err
}

// choose returns what the schedule has to know, and reads the windows.
func (r *run) choose(only *regexp.Regexp) ([]kindOfFault, error) {
	var chosen []kindOfFault
	path := r.checkout.Path("docs", "concepts", "faults.md")
	stated, err := faults.ReadWindows(path, faults.NameColumn)
	if err != nil {
		return nil, err
	}
	here, err := faults.ReadWindows(path, NameColumn)
	if err != nil {
		return nil, err
	}
	for _, f := range kinds {
		w, ok := here[f.name]
		if !ok {
			w, ok = stated[f.name]
		}
		if !ok {
			return nil, fmt.Errorf("%s has no windows of %s", path, f.name)
		}
		r.windows[f.name] = w
		if only.MatchString(f.name) {
			chosen = append(chosen, kindOfFault{f.name, f.on})
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no fault's name matches %s", only)
	}
	return chosen, nil
}

// rounds does one round after the other until the time is over.
func (r *run) rounds(ctx context.Context, plan Plan, chosen []kindOfFault) error {
	began := time.Now()
	for _, steps := range schedule(plan.Seed, mostRounds, chosen) {
		if err := r.round(ctx, steps); err != nil {
			return err
		}
		r.judge()
		if time.Since(began) > plan.For {
			return nil
		}
	}
	return nil
}

// round does the steps, and returns when no fault explains anything any more, and some time after.
func (r *run) round(ctx context.Context, steps []Step) error {
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	var recovery time.Duration
	for i, s := range steps {
		f := kindOf(s)
		effect := Effect{r.windows[f.name], cmp.Or(f.denied, never), cmp.Or(f.stale, never), cmp.Or(f.elsewhere, never)}
		recovery = max(recovery, effect.Refused, effect.Bare, f.denied, f.stale, f.elsewhere)
		r.result.Faults++
		all.Go(func() {
			if errs[i] = measure.Sleep(ctx, s.After); errs[i] != nil {
				return
			}
			done := r.begin(Fault{Step: s, Effect: effect, Began: time.Now()})
			errs[i] = f.do(ctx, r, s)
			r.say("  %s", done())
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", s.Name, errs[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := measure.Sleep(ctx, recovery+strict); err != nil {
		return err
	}
	for _, s := range steps {
		if f := kindOf(s); f.after != nil {
			if err := f.after(ctx, r, s); err != nil {
				return fmt.Errorf("clearing up after %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// begin notes a fault, and returns what notes its end.
func (r *run) begin(f Fault) (end func() Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.log.Faults)
	r.log.Faults = append(r.log.Faults, f)
	return func() Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log.Faults[i].Ended = time.Now()
		return r.log.Faults[i]
	}
}

// judge counts the attempts so far, and tells each that is wrong with the faults then active.
func (r *run) judge() {
	pods := r.load.take()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range pods {
		r.result.Tried++
		if p.Unanswered+p.Denied+p.Elsewhere == "" {
			r.result.Admitted++
		} else {
			r.result.Refused++
		}
		if why := r.log.Judge(p); why != "" {
			r.result.Wrong++
			r.say("WRONG pod sent %s to %s, answered after %s: %.600s", p.Began.Format(clock), p.Namespace, p.Ended.Sub(p.Began).Round(time.Millisecond), why)
			for _, f := range r.log.Active(p) {
				r.say("      active: %s", f)
			}
		}
	}
	r.say("%s: %d faults, %d pods tried, %d admitted, %d refused, %d wrong", time.Now().Format(clock), r.result.Faults, r.result.Tried, r.result.Admitted, r.result.Refused, r.result.Wrong)
}

// fail counts something else that is wrong.
func (r *run) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Wrong++
	r.say("WRONG "+format, args...)
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// finish waits until every pod is admitted, and looks what is left.
func (r *run) finish(ctx context.Context, before snapshot) error {
	deadline := time.Now().Add(faults.Patience)
	for measure.Sleep(ctx, 100*time.Millisecond) == nil {
		r.load.mu.Lock()
		n := len(r.load.waiting)
		r.load.mu.Unlock()
		if n == 0 || time.Now().After(deadline) {
			break
		}
	}
	r.judge()
	r.load.mu.Lock()
	for _, what := range r.load.waiting {
		r.fail("a pod is never admitted, %s", what)
	}
	r.result.P50, r.result.P99, r.result.Max = measure.Quantile(r.load.took, 0.5), measure.Quantile(r.load.took, 0.99), measure.Quantile(r.load.took, 1)
	r.load.mu.Unlock()
	return r.count(ctx, before)
}

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

// prepare makes templates and namespaces, and returns when pods come as they should.
func (r *run) prepare(ctx context.Context, background *sync.WaitGroup) error {
	for _, text := range []string{asked, selecting} {
		if err := r.apply(ctx, text); err != nil {
			return err
		}
	}
	for _, name := range []string{askedTemplate, selectingTemplate} {
		if err := r.edit(ctx, name, ""); err != nil {
			return err
		}
	}
	c, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, ground.Release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.chart = c.Webhooks
	background.Go(func() {
		measure.Follow(ctx, "", r.client.CoreV1().Namespaces().Watch, func(e watch.Event) {
			if ns, ok := e.Object.(*corev1.Namespace); ok {
				if e.Type == watch.Deleted {
					ns.Labels = nil
				}
				r.see(ns)
			}
		})
	})
	background.Go(func() {
		measure.Follow(ctx, ground.Release, r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Watch, func(e watch.Event) {
			if c, ok := e.Object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
				r.seeEntries(c, e.Type == watch.Deleted)
			}
		})
	})
	for kind := range namespaces {
		if err := r.makeNamespace(ctx, kind); err != nil {
			return err
		}
	}
	if err := measure.Sleep(ctx, settle); err != nil {
		return err
	}
	return measure.Within(ctx, againLimit, func() error {
		for kind, namespace := range namespaces {
			p, _ := r.load.try(ctx, kind, namespace, 1)
			r.mu.Lock()
			why := r.log.Judge(p)
			closed := r.log.Closed[namespace].Always(true, p.Began, p.Ended)
			r.mu.Unlock()
			if why != "" {
				return fmt.Errorf("a pod of %s: %s", namespace, why)
			}
			if want := kind == Enforced || kind == Required; closed != want {
				return fmt.Errorf("%s fails closed: %v, want %v", namespace, closed, want)
			}
		}
		return nil
	})
}

// see notes whether a namespace fails closed, as an API server tells it.
func (r *run) see(ns *corev1.Namespace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log.Closed[ns.Name] == nil {
		r.log.Closed[ns.Name] = &faults.History{}
	}
	r.log.Closed[ns.Name].Set(time.Now(), ns.Labels[injectionLabel] == "enforced")
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

// edit writes a new version of a template, with more fields of its spec, each with a comma.
func (r *run) edit(ctx context.Context, template, more string) error {
	r.mu.Lock()
	r.edits++
	v := version{name: fmt.Sprintf("v%d", r.edits), sent: time.Now()}
	i := len(r.log.Templates[template])
	r.log.Templates[template] = append(r.log.Templates[template], v)
	r.mu.Unlock()
	patch := fmt.Sprintf(`{"spec":{%s"parameters":[{"name":"version","type":"string","default":%q}]}}`, more, v.name)
	err := r.again(ctx, func(ctx context.Context) error {
		_, err := r.dynamic.Resource(templateResource).Patch(ctx, template, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.log.Templates[template][i].written = time.Now()
	}
	return err
}

func (r *run) apply(ctx context.Context, manifest string) error {
	return r.again(ctx, func(ctx context.Context) error {
		_, _, err := ground.Exec(ctx, r.g, manifest, "kubectl", "apply", "-f", "-")
		return err
	})
}

var templateResource = schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}

// makeNamespace makes the namespace of a kind, and returns when pods can be created in it.
func (r *run) makeNamespace(ctx context.Context, kind Kind) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[kind], Labels: map[string]string{}}}
	switch kind {
	case Enabled:
		object.Annotations, object.Labels[injectionLabel] = map[string]string{injectAnnotation: askedTemplate}, "enabled"
	case Enforced:
		object.Annotations = map[string]string{injectAnnotation: askedTemplate} // Pillion sets the label
	case Required:
		object.Labels["example.com/soak"] = "required"
	}
	return r.again(ctx, func(ctx context.Context) error {
		_, err := r.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		ns, err := r.client.CoreV1().Namespaces().Get(ctx, object.Name, metav1.GetOptions{})
		if err == nil && ns.DeletionTimestamp != nil {
			err = fmt.Errorf("namespace %s is being deleted", ns.Name)
		}
		if err != nil {
			return err
		}
		_, err = r.client.CoreV1().ServiceAccounts(object.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
