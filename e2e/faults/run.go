package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Values are the chart's values: those of everybody, and one template of the library.
var Values = []string{"--set", "library={" + librarySidecar + "}", "--set", "enforcement=Asked"}

// calm is how long all has to go well before a fault is done, and when it is over.
const calm = 2 * time.Second

// recoveryLimit is how long a run waits for that.
const recoveryLimit = 2 * time.Minute

// A run does faults to one node.
type run struct {
	g        *ground.Node
	checkout ground.Checkout
	out      io.Writer
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	state    *state
	load     *load
	windows  map[string]Window
	audited  int64                    // how far the audit log has been read
	late     []string                 // namespaces that a fault has change while it lasts
	starts   map[string]time.Duration // by replica and process: until it was ready
	// cut is the replica that was last cut off from kube-apiserver. Before that, it had answered
	// cutAnswers reviews and sent cut503 away.
	cut                ground.Replica
	cutAnswers, cut503 float64
	// streams are those of the fault that is being done, which end with it.
	streams    sync.WaitGroup
	streamsEnd context.Context
}

// Run does the faults and measures the changes whose names match, and writes their lines to
// out. Wrong is what is not as docs/concepts/faults.md states; the error is about the run itself.
func Run(ctx context.Context, g *ground.Node, checkout ground.Checkout, only *regexp.Regexp, out io.Writer) (wrong []string, err error) {
	r := &run{g: g, checkout: checkout, out: out, state: newState(), starts: map[string]time.Duration{}}
	if r.windows, err = ReadWindows(checkout.Path("docs", "concepts", "faults.md"), NameColumn); err != nil {
		return nil, err
	}
	config, client, err := measure.Connect(g.Kubeconfig())
	if err != nil {
		return nil, err
	}
	r.client = client
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	r.load = &load{kubeconfig: g.Kubeconfig(), state: r.state, waiting: map[int]time.Time{}}
	if err := r.prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing the load: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { r.state.follow(ctx, r.client) })
	for kind, namespace := range map[Kind]string{Enforced: enforcedNamespace, Requested: requestedNamespace, NeverAsked: neverNamespace} {
		_, client, err := measure.Connect(g.Kubeconfig())
		if err != nil {
			return nil, err
		}
		background.Go(func() { r.load.stream(ctx, client, kind, namespace) })
	}
	for _, f := range faults {
		if !only.MatchString(f.name) {
			continue
		}
		result, err := r.do(ctx, f)
		if err != nil {
			return wrong, fmt.Errorf("%s: %w", f.name, err)
		}
		fmt.Fprintln(out, result)
		r.detail(result)
		for _, b := range result.Broken {
			wrong = append(wrong, f.name+": "+b)
		}
	}
	for _, c := range changes {
		if !only.MatchString("change-" + c.kind) {
			continue
		}
		if err := r.change(ctx, c, &wrong); err != nil {
			return wrong, fmt.Errorf("changes of a %s: %w", c.kind, err)
		}
	}
	return append(wrong, r.sayStarts()...), nil
}

// prepare makes the template and the namespaces.
func (r *run) prepare(ctx context.Context) error {
	if err := r.apply(ctx, clusterTemplate); err != nil {
		return err
	}
	for kind, name := range map[Kind]string{Enforced: enforcedNamespace, Requested: requestedNamespace, NeverAsked: neverNamespace} {
		if err := makeNamespace(ctx, r.client, name, kind); err != nil {
			return err
		}
	}
	return nil
}

// do does one fault.
func (r *run) do(ctx context.Context, f fault) (Result, error) {
	window, ok := r.windows[f.name]
	if !ok {
		return Result{}, errors.New("docs/concepts/faults.md states no windows of it")
	}
	if f.fresh {
		if err := r.fresh(ctx); err != nil {
			return Result{}, fmt.Errorf("beginning with replicas that were never restarted: %w", err)
		}
	}
	if err := measure.Within(ctx, recoveryLimit, func() error { return r.load.steady(calm) }); err != nil {
		return Result{}, fmt.Errorf("before it: %w", err)
	}
	r.seeStarts()
	r.load.forget(time.Now().Add(-calm))
	if f.before != nil {
		if err := f.before(ctx, r); err != nil {
			return Result{}, fmt.Errorf("preparing it: %w", err)
		}
	}
	var stopStreams context.CancelFunc
	r.streamsEnd, stopStreams = context.WithCancel(ctx)
	defer stopStreams()
	var err error
	if _, r.audited, err = calls(r.g.AuditLog(), neverNamespace, r.audited); err != nil {
		return Result{}, err
	}
	before, err := r.restarts(ctx)
	if err != nil {
		return Result{}, err
	}
	t := Timeline{Began: time.Now()}
	if err := f.harm(ctx, r); err != nil {
		return Result{}, fmt.Errorf("doing it: %w", err)
	}
	if f.mend != nil {
		if err := measure.Sleep(ctx, f.hold); err != nil {
			return Result{}, err
		}
		t.Mending = time.Now()
		if err := f.mend(ctx, r); err != nil {
			return Result{}, fmt.Errorf("mending it: %w", err)
		}
	}
	// Before that, what was before the fault would be taken for the recovery.
	if err := measure.Sleep(ctx, max(f.lasts, 2*calm)); err != nil {
		return Result{}, err
	}
	recovered := measure.Within(ctx, recoveryLimit, func() error { return r.load.steady(calm) })
	end := time.Now()
	if err := r.load.answered(ctx, end); err != nil {
		return Result{}, err
	}
	n, audited, err := calls(r.g.AuditLog(), neverNamespace, r.audited)
	if err != nil {
		return Result{}, err
	}
	r.audited = audited
	result := Account(f.name, r.load.take(t.Began, end), n, t, window)
	if recovered != nil {
		result.Broken = append(result.Broken, fmt.Sprintf("it was not over: %v", recovered))
	}
	stopStreams()
	r.streams.Wait()
	restarts, err := r.restarts(ctx)
	if err != nil {
		return result, err
	}
	for pod, n := range restarts {
		// A fault that has a replica restarted begins with fresh ones.
		if !f.fresh && n > before[pod] {
			result.Broken = append(result.Broken, fmt.Sprintf("%s was restarted %d times", pod, n-before[pod]))
		}
	}
	if f.after != nil {
		if err := f.after(ctx, r); err != nil {
			return result, fmt.Errorf("clearing up after it: %w", err)
		}
	}
	if err := r.removeLate(ctx); err != nil {
		return result, err
	}
	if err := r.g.Rollout(ctx, ground.Namespace); err != nil {
		return result, err
	}
	r.seeStarts()
	return result, nil
}

// detail says more of a result, in lines that begin with spaces.
func (r *run) detail(result Result) {
	if result.Refused+result.Bare+result.Wrong+result.Elsewhere == 0 {
		return
	}
	of := func(n map[Kind]int) string {
		var parts []string
		for _, kind := range []Kind{Enforced, Requested, NeverAsked} {
			parts = append(parts, fmt.Sprintf("%s %d", kind, n[kind]))
		}
		return strings.Join(parts, ", ")
	}
	fmt.Fprintf(r.out, "  tried: %s; refused: %s, the last sent after %s; bare: %s, the last sent after %s; refused for other reasons: %d; calls for the namespace that never asked: %d\n",
		of(result.TriedOf), of(result.RefusedOf), result.LastRefused.Round(time.Millisecond), of(result.BareOf), result.LastBare.Round(time.Millisecond), result.Elsewhere, result.Calls)
	for _, e := range result.Examples {
		fmt.Fprintf(r.out, "  %.400s\n", e)
	}
	for _, b := range result.Broken {
		fmt.Fprintln(r.out, "  NOT AS STATED:", b)
	}
}

// restarts are how often the containers of each of Pillion's pods were restarted.
func (r *run) restarts(ctx context.Context) (map[string]int32, error) {
	pods, err := r.client.CoreV1().Pods(ground.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	n := map[string]int32{}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			n[p.Name] += s.RestartCount
		}
	}
	return n, nil
}

// fresh replaces all replicas if a container of theirs was restarted: a kubelet waits longer
// before each further restart.
func (r *run) fresh(ctx context.Context) error {
	restarts, err := r.restarts(ctx)
	if err != nil {
		return err
	}
	for _, n := range restarts {
		if n > 0 {
			return r.restart(ctx)
		}
	}
	return nil
}

// restart replaces all replicas, and returns when that is done.
func (r *run) restart(ctx context.Context) error {
	if err := r.kubectl(ctx, "rollout", "restart", "deployment/pillion"); err != nil {
		return err
	}
	return r.rolledOut(ctx)
}

func (r *run) rolledOut(ctx context.Context) error {
	return r.kubectl(ctx, "rollout", "status", "deployment/pillion", "--timeout=120s")
}

// kubectl runs kubectl in Pillion's namespace.
func (r *run) kubectl(ctx context.Context, args ...string) error {
	_, err := ground.Run(ctx, r.g, "kubectl", append([]string{"-n", ground.Namespace}, args...)...)
	return err
}

// upgrade runs helm upgrade, with more arguments.
func (r *run) upgrade(ctx context.Context, args ...string) error {
	_, err := ground.Run(ctx, r.g, "helm", append([]string{"upgrade", ground.Release, r.checkout.Chart(), "-n", ground.Namespace, "--wait", "--timeout=120s"}, args...)...)
	return err
}

func rollback(ctx context.Context, r *run) error {
	_, err := ground.Run(ctx, r.g, "helm", "rollback", ground.Release, "-n", ground.Namespace, "--wait", "--timeout=120s")
	return err
}

func install(ctx context.Context, r *run) error {
	_, err := ground.Run(ctx, r.g, "helm", ground.InstallArgs(r.g, r.checkout.Chart(), append([]string{"--timeout=120s"}, Values...)...)...)
	return err
}
