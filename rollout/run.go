package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
)

// Mode is how pods are brought up to date.
type Mode string

// The modes, as the flags have them.
const (
	// Restart makes owners replace their pods, as by kubectl rollout restart.
	Restart Mode = "restart"
	// InPlaceMode changes the images of native sidecars in running pods.
	InPlaceMode Mode = "in-place"
)

// Options configure [Run].
type Options struct {
	Cluster   Cluster
	Comparer  drift.Comparer
	Templates *templates.Set
	// Template and Namespace limit the run. "" means all.
	Template, Namespace string
	Mode                Mode
	// Timeout bounds the update of one workload, or with InPlaceMode of one pod. Poll is the interval
	// between two reads meanwhile.
	Timeout, Poll time.Duration
	// DryRun means that Run writes nothing.
	DryRun bool
	// Out gets a line for each step.
	Out io.Writer
}

// ErrIncomplete is the error of a rollout after which some pods of workloads are still outdated.
var ErrIncomplete = errors.New("some pods are not up to date")

// Run brings pods up to date, one workload after the other. It stops at the first error. The same
// call continues from there.
func Run(ctx context.Context, o Options) error {
	r := &run{Options: o, namespaces: map[string]templates.Namespace{}, untestable: map[string]bool{}}
	p, err := r.observe(ctx, r.Namespace)
	if err != nil {
		return err
	}
	r.printf("%d of %d pods up to date", p.current, p.current+p.outdated)
	if p, err = r.dryRunAll(ctx, p); err != nil {
		return err
	}
	r.describe(p)
	switch {
	case o.DryRun:
		r.printf("dry run: nothing was touched")
		return p.err()
	case len(p.workloads) == 0:
		r.printf("nothing to do")
		return p.err()
	}
	for _, w := range p.workloads {
		if err := r.update(ctx, w); err != nil {
			return err
		}
	}
	now, err := r.observe(ctx, r.Namespace)
	if err != nil {
		return err
	}
	r.printf("done: %d of %d pods up to date", now.current, now.current+now.outdated)
	if now.outdated == 0 {
		return nil
	}
	return p.err()
}

// run is one rollout.
type run struct {
	Options
	namespaces map[string]templates.Namespace
	// untestable are the namespaces in which the user may not create pods by dry run.
	untestable map[string]bool
}

func (r *run) printf(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

// describe prints the plan.
func (r *run) describe(p plan) {
	for _, w := range p.workloads {
		does := map[Mode]string{Restart: "restart", InPlaceMode: "change in place"}[r.Mode]
		r.printf("  %s in namespace %s: %s (pods: %d; %s)", w.Owner, w.Namespace, does, len(w.pods), w.state)
	}
	for _, l := range p.rest {
		r.printf("  not touched: %s in namespace %s (pods: %d): %s", l.Owner, l.Namespace, l.pods, l.why)
	}
	if p.err() != nil && r.Mode == InPlaceMode {
		r.printf("--restart brings pods up to date that cannot be changed in place")
	}
}

// update brings a workload up to date.
func (r *run) update(ctx context.Context, w workload) error {
	if r.Mode == Restart {
		return r.runTimed(ctx, fmt.Sprintf("restarting %s in namespace %s", w.Owner, w.Namespace), func(ctx context.Context) error { return r.restart(ctx, w) })
	}
	for _, p := range w.pods {
		if err := r.runTimed(ctx, fmt.Sprintf("changing pod %s", p), func(ctx context.Context) error { return r.change(ctx, p) }); err != nil {
			return err
		}
	}
	return nil
}

// runTimed runs one step within the timeout.
func (r *run) runTimed(ctx context.Context, doing string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("not done within --timeout=%s", r.Timeout))
	defer cancel()
	began := time.Now()
	r.printf("%s", doing)
	if err := do(ctx); err != nil {
		return fmt.Errorf("stopped while %s: %w. The same command continues from here", doing, err)
	}
	r.printf("  ready again after %s", time.Since(began).Round(time.Second))
	return nil
}

// poll calls pending until it returns "". Before that, pending returns the reason to wait.
func (r *run) poll(ctx context.Context, pending func() (string, error)) error {
	last := ""
	for {
		why, err := pending()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %s", context.Cause(ctx), cmp.Or(why, last))
		case err != nil || why == "":
			return err
		}
		last = why
		waiting.For(ctx, r.Poll)
	}
}

// restart restarts a workload, and waits until its rolling update is complete.
func (r *run) restart(ctx context.Context, w workload) error {
	if err := r.Cluster.Restart(ctx, w.Owner, time.Now(), false); err != nil {
		return err
	}
	err := r.poll(ctx, func() (string, error) {
		object, err := r.Cluster.Object(ctx, w.Owner)
		if err != nil {
			return "", err
		}
		why, stuck := RolledOut(w.Kind, object)
		if stuck {
			return "", errors.New(why)
		}
		return why, nil
	})
	if err != nil {
		return err
	}
	now, err := r.observe(ctx, w.Namespace)
	if err != nil {
		return err
	}
	for _, still := range now.workloads {
		if still.Owner == w.Owner {
			return fmt.Errorf("the new pod %s is not up to date (%s): another webhook changes it, the templates have changed since this command began, or API servers do not call Pillion. For more: pillion status", still.pods[0], still.state)
		}
	}
	return nil
}
