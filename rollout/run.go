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
	// Restart: owners replace their pods, as by kubectl rollout restart.
	Restart Mode = "restart"
	// InPlaceMode: running pods get other images for their native sidecars.
	InPlaceMode Mode = "in-place"
)

// Options say what [Run] is to do.
type Options struct {
	Cluster   Cluster
	Comparer  drift.Comparer
	Templates *templates.Set
	// Template and Namespace limit what counts; all for "".
	Template, Namespace string
	Mode                Mode
	// Timeout bounds how long one workload, or with InPlaceMode one pod, may take until it is ready
	// again. Poll is how often the cluster is read meanwhile.
	Timeout, Poll time.Duration
	// DryRun: nothing is written.
	DryRun bool
	// Out gets a line for each thing that is done.
	Out io.Writer
}

// ErrLeft is the error of a rollout that did all it could, and left pods of workloads as they are.
var ErrLeft = errors.New("some pods are not up to date")

// Run brings pods to what they would get now, one workload after the other. It stops at the first
// thing that goes wrong, and the same call goes on from there.
func Run(ctx context.Context, o Options) error {
	r := &run{Options: o, namespaces: map[string]templates.Namespace{}, untried: map[string]bool{}}
	p, err := r.observe(ctx, r.Namespace)
	if err != nil {
		return err
	}
	r.printf("%d of %d pods up to date", p.current, p.current+p.behind)
	if p, err = r.try(ctx, p); err != nil {
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
	r.printf("done: %d of %d pods up to date", now.current, now.current+now.behind)
	return p.err()
}

// run is one rollout.
type run struct {
	Options
	namespaces map[string]templates.Namespace
	// untried are the namespaces in which the user may not create pods by dry run.
	untried map[string]bool
}

func (r *run) printf(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

// describe prints what there is to do.
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
		return r.timed(ctx, fmt.Sprintf("restarting %s in namespace %s", w.Owner, w.Namespace), func(ctx context.Context) error { return r.restart(ctx, w) })
	}
	for _, p := range w.pods {
		if err := r.timed(ctx, fmt.Sprintf("changing pod %s", p), func(ctx context.Context) error { return r.change(ctx, p) }); err != nil {
			return err
		}
	}
	return nil
}

// timed does one thing within the timeout.
func (r *run) timed(ctx context.Context, doing string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("not done within --timeout=%s", r.Timeout))
	defer cancel()
	began := time.Now()
	r.printf("%s", doing)
	if err := do(ctx); err != nil {
		return fmt.Errorf("stopped while %s: %w; the same command goes on from here", doing, err)
	}
	r.printf("  ready again after %s", time.Since(began).Round(time.Second))
	return nil
}

// await calls pending, which says what is waited for, until it returns "".
func (r *run) await(ctx context.Context, pending func() (string, error)) error {
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

// restart restarts a workload, and waits until its rolling update is at its end.
func (r *run) restart(ctx context.Context, w workload) error {
	if err := r.Cluster.Restart(ctx, w.Owner, time.Now(), false); err != nil {
		return err
	}
	err := r.await(ctx, func() (string, error) {
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
			return fmt.Errorf("pod %s, which is new, is not up to date (%s): somebody else's change of the pod, the templates have changed since this command began, or API servers do not call Pillion; pillion status says more", still.pods[0], still.state)
		}
	}
	return nil
}
