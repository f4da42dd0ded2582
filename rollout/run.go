package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
)

// Mode is how pods are brought up to date.
type Mode string

// The modes, as the flags have them.
const (
	// Evict: pods are evicted, and their owners make new ones. No object that somebody
	// wrote changes.
	Evict Mode = "evict"
	// Restart: owners replace their pods, as by kubectl rollout restart.
	Restart Mode = "restart"
	// InPlaceMode: running pods get other images for their native sidecars.
	InPlaceMode Mode = "in-place"
)

// Options say what [Run] is to do.
type Options struct {
	Cluster Cluster
	Judge   Judge
	Mode    Mode
	// Namespace is the one whose pods count; all for "".
	Namespace string
	// Selector selects pods by their labels.
	Selector labels.Selector
	// Except are workloads that are left alone, as NAMESPACE/KIND/NAME.
	Except []string
	// Command is the command line, to which flags can be added.
	Command string
	Wave    Wave
	// Timeout bounds how long a wave may take until everything is ready again.
	Timeout time.Duration
	// Poll is how often the cluster is read while a wave is waited for.
	Poll time.Duration
	// DryRun: nothing is written.
	DryRun bool
	// Out gets a line for each thing that is done.
	Out io.Writer
}

// ErrLeft is the error of a rollout that did what it could, and left pods of workloads as
// they are.
var ErrLeft = errors.New("some pods are not up to date")

// StoppedError says why a rollout stopped before its end.
type StoppedError struct {
	// Why has all reasons.
	Why []string
	// Touched reports whether anything was written before.
	Touched bool
}

func (e *StoppedError) Error() string {
	if !e.Touched {
		return "nothing was touched: " + strings.Join(e.Why, "; ")
	}
	return "stopped: " + strings.Join(e.Why, "; ") + "; the same command goes on from here"
}

// Run brings pods to what they would get now, wave by wave. It stops at the first thing that
// goes wrong: with a [*StoppedError], or with the error of the API server.
func Run(ctx context.Context, o Options) error {
	r := &run{
		Options: o, namespaces: map[string]templates.Namespace{}, replicaSets: map[Owner]map[string]any{}, desired: map[Owner]int{},
		stays: map[Owner]string{}, budgets: map[Owner]string{}, untried: map[string]bool{},
	}
	v, err := r.look(ctx, []string{r.Namespace})
	if err != nil {
		return err
	}
	r.describe(v)
	if problems, err := r.check(ctx, v); err != nil || len(problems) > 0 {
		return cmp.Or(err, error(&StoppedError{Why: problems}))
	}
	if len(r.stays) > 0 { // what check found out
		if v, err = r.look(ctx, []string{r.Namespace}); err != nil {
			return err
		}
	}
	if o.DryRun {
		r.say("dry run: nothing was touched")
		return r.leaves(v)
	}
	return r.waves(ctx, v)
}

// run is one rollout.
type run struct {
	Options
	namespaces map[string]templates.Namespace
	// replicaSets are those that have pods.
	replicaSets map[Owner]map[string]any
	// desired has, of owners of unknown kinds, how many pods they had at first.
	desired map[Owner]int
	// stays are the workloads that cannot be brought up to date now, with the reason.
	stays map[Owner]string
	// untried are the namespaces in which the user may not create pods by dry run.
	untried map[string]bool
	touched bool
	// done counts pods, or with Restart owners.
	done, wave int
	// budgets are the workloads whose pods disruption budgets keep for now, with what the API server
	// said. They come last.
	budgets map[Owner]string
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

func (r *run) stop(format string, args ...any) error {
	return &StoppedError{Why: []string{fmt.Sprintf(format, args...)}, Touched: r.touched}
}

// describe says what there is to do.
func (r *run) describe(v view) {
	r.say("%d of %d pods up to date", v.current, v.current+v.behind)
	for _, w := range v.workloads {
		behind := w.behind()
		what := map[Mode]string{Evict: "evict", Restart: "restart, for", InPlaceMode: "change in place"}[r.Mode]
		r.say("  %s in namespace %s: %s %d of %d pods (%s)", w.Owner, w.Namespace, what, len(behind), len(w.Pods), behind[0].Behind)
		if r.Mode == Evict && w.Desired == 1 && w.Kind == "Deployment" {
			r.say("    it has no other pod meanwhile; --restart creates the new one first")
		}
	}
	for _, l := range v.left {
		r.say("  not touched: %s", l)
	}
	if all := r.size(v); all > 0 {
		what := "pods"
		if r.Mode == Restart {
			what = "workloads"
		}
		if n := r.Wave.Of(all); n == 1 {
			r.say("one at a time")
		} else {
			r.say("in waves: one, then up to %d %s at once", n, what)
		}
	}
}

// leaves is the end of a rollout that did all that it can.
func (r *run) leaves(v view) error {
	if v.superseded > 0 {
		r.say("%d pods are left to their Deployments, which are replacing them", v.superseded)
	}
	switch {
	case v.cannot == 0 && (v.superseded == 0 || r.DryRun): // there is nothing to be done about them
		return nil
	case v.cannot == 0:
		return ErrLeft
	}
	if r.Mode == InPlaceMode {
		r.say("%d pods cannot be changed in place: --evict or --restart bring them up to date", v.cannot)
		return ErrLeft
	}
	for _, l := range v.left {
		if l.cannot {
			r.say("left: %s", l)
		}
	}
	var except []string
	for o := range r.stays {
		except = append(except, o.key())
	}
	slices.Sort(except)
	r.say("without them: %s --except %s", r.Command, strings.Join(append(except, r.Except...), ","))
	return ErrLeft
}

// waves is the loop.
func (r *run) waves(ctx context.Context, v view) error {
	total := r.size(v)
	for {
		if r.size(v) == 0 {
			r.conclude(v)
			return r.leaves(v)
		}
		size := r.Wave.Of(total)
		if r.wave == 0 {
			size = 1 // what goes wrong goes wrong once
		}
		if err := r.one(ctx, v, size); err != nil {
			return err
		}
		var err error
		if v, err = r.look(ctx, []string{r.Namespace}); err != nil {
			return err
		}
		if problems := refusals(v.refused); len(problems) > 0 {
			return &StoppedError{Why: problems, Touched: r.touched}
		}
	}
}

// conclude says what was done.
func (r *run) conclude(v view) {
	if r.wave == 0 {
		if v.cannot == 0 {
			r.say("nothing to do")
		}
		return
	}
	in := "one wave"
	if r.wave > 1 {
		in = fmt.Sprintf("%d waves", r.wave)
	}
	r.say("done: %d %s in %s; %d of %d pods up to date", r.done, r.verb(r.done), in, v.current, v.current+v.behind)
}

// size returns how many are to go: pods, or with Restart owners.
func (r *run) size(v view) (n int) {
	for _, w := range v.workloads {
		switch behind := len(w.behind()); {
		case r.Mode == Restart && behind > 0:
			n++
		case r.Mode != Restart:
			n += behind
		}
	}
	return n
}

func (r *run) verb(n int) string {
	one, many := "pod was evicted and replaced", "pods were evicted and replaced"
	switch r.Mode {
	case Restart:
		one, many = "workload was restarted", "workloads were restarted"
	case InPlaceMode:
		one, many = "pod was changed in place", "pods were changed in place"
	}
	if n == 1 {
		return one
	}
	return many
}

// one does one wave, and waits until everything is ready again.
func (r *run) one(ctx context.Context, v view, size int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errLate)
	defer cancel()
	if r.Mode == Restart {
		return r.restart(ctx, v, size)
	}
	wave, err := r.next(ctx, v, size)
	for waits := ""; err == nil && len(wave) == 0; {
		why := strings.Join(slices.DeleteFunc([]string{blocked(v.workloads), r.budgetsSay()}, func(s string) bool { return s == "" }), "; ")
		if why != waits {
			r.say("waiting: %s", why)
			waits = why
		}
		budgets := r.budgets
		r.budgets = map[Owner]string{} // they are asked again
		if r.pause(ctx) {
			if v, err = r.look(ctx, []string{r.Namespace}); err == nil && r.size(v) == 0 {
				return nil
			}
			if err == nil {
				wave, err = r.next(ctx, v, size)
			}
		}
		if ctx.Err() != nil {
			return r.giveUp(ctx, budgets, waits)
		}
	}
	if err != nil {
		return r.failed(ctx, err, "")
	}
	r.wave++
	began := time.Now()
	r.say("wave %d: %s", r.wave, names(wave))
	if r.Mode == Evict {
		err = r.evict(ctx, v, wave)
	} else {
		err = r.inPlaceWave(ctx, wave)
	}
	if err == nil {
		r.say("  ready again after %s", time.Since(began).Round(time.Second))
	}
	return err
}

// next chooses a wave of pods that no disruption budget keeps. A workload with such a budget comes
// after all others.
func (r *run) next(ctx context.Context, v view, size int) ([]Pod, error) {
	for {
		free := slices.DeleteFunc(slices.Clone(v.workloads), func(w Workload) bool { return r.budgets[w.Owner] != "" })
		wave, allowed := Next(free, size), []Pod(nil)
		if r.Mode != Evict {
			return wave, nil
		}
		for _, p := range wave {
			switch err := r.Cluster.Evict(ctx, p, true); {
			case apierrors.IsTooManyRequests(err):
				r.budgets[p.owner] = err.Error()
			case ctx.Err() != nil:
				return nil, err
			default:
				allowed = append(allowed, p) // another error is the eviction's own
			}
		}
		if len(allowed) > 0 || len(wave) == 0 {
			return allowed, nil
		}
	}
}

// budgetsSay says which workloads wait for disruption budgets.
func (r *run) budgetsSay() string {
	var parts []string
	for o, why := range r.budgets {
		parts = append(parts, fmt.Sprintf("%s in namespace %s: %s", o, o.Namespace, why))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// giveUp leaves the workloads whose disruption budgets let no pod go until the wave's end. Whatever
// else keeps a wave from its end stops the rollout.
func (r *run) giveUp(ctx context.Context, budgets map[Owner]string, waits string) error {
	if len(budgets) == 0 || !errors.Is(context.Cause(ctx), errLate) {
		return r.late(ctx, waits)
	}
	for o, why := range budgets {
		r.stays[o] = fmt.Sprintf("not done within %s: %s", r.Timeout, why)
	}
	return nil
}

// errLate is the cause of a wave's end by its timeout.
var errLate = errors.New("it took longer than --timeout")

// late says why the wave has ended before it was done.
func (r *run) late(ctx context.Context, why string) error {
	if errors.Is(context.Cause(ctx), errLate) {
		return r.stop("not done within %s: %s", r.Timeout, why)
	}
	return r.stop("interrupted: %s", why)
}

// pause waits for the next look. It returns false if there is none.
func (r *run) pause(ctx context.Context) bool {
	return waiting.For(ctx, r.Poll)
}

func names(pods []Pod) string {
	all := make([]string, len(pods))
	for i, p := range pods {
		all[i] = p.String()
	}
	return strings.Join(all, ", ")
}

// evict evicts the pods of a wave, and waits for those that take their places.
func (r *run) evict(ctx context.Context, v view, wave []Pod) error {
	gone, touched := map[string]bool{}, map[Owner]bool{}
	for _, p := range wave {
		if err := r.evictOne(ctx, p); err != nil {
			return err
		}
		gone[p.UID], touched[p.owner] = true, true
		r.done++
	}
	return r.untilReady(ctx, v, slices.Collect(maps.Keys(touched)), gone)
}

// evictOne evicts a pod. While a disruption budget refuses that, it tries again.
func (r *run) evictOne(ctx context.Context, p Pod) error {
	waits := ""
	return r.await(ctx, func() (string, error) {
		err := r.Cluster.Evict(ctx, p, false)
		switch {
		case err == nil:
			r.touched = true
			return "", nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return "", nil // another pod has its name, or none
		case !apierrors.IsTooManyRequests(err):
			return "", err
		}
		if why := err.Error(); why != waits {
			r.say("  waiting: %s", why)
			waits = why
		}
		return waits, nil
	})
}

// await calls waitsFor until it says nothing. It ends with an error of waitsFor, or with the wave.
func (r *run) await(ctx context.Context, waitsFor func() (string, error)) error {
	for why := ""; ; {
		now, err := waitsFor()
		switch {
		case err != nil:
			return r.failed(ctx, err, why)
		case now == "":
			return nil
		}
		why = now
		if !r.pause(ctx) {
			return r.late(ctx, why)
		}
	}
}

// failed is a request that failed because of the request, or because the wave has ended
// while it waited.
func (r *run) failed(ctx context.Context, err error, waits string) error {
	var stopped *StoppedError
	switch {
	case errors.As(err, &stopped):
		return err
	case ctx.Err() != nil:
		return r.late(ctx, cmp.Or(waits, err.Error()))
	}
	return r.stop("%v", err)
}

// untilReady waits until the workloads have as many ready pods as before the wave, and every
// new pod is ready and up to date.
func (r *run) untilReady(ctx context.Context, before view, touched []Owner, gone map[string]bool) error {
	known := map[string]bool{}
	for _, w := range before.workloads {
		for _, p := range w.Pods {
			known[p.UID] = true
		}
	}
	return r.await(ctx, func() (string, error) {
		v, err := r.look(ctx, namespacesOf(touched), touched...)
		if err != nil {
			return "", err
		}
		why := ""
		for _, o := range touched {
			now := v.workload(o)
			was := before.workload(o)
			w, err := r.notReady(was, now, known, gone)
			if err != nil {
				return "", err
			}
			why = cmp.Or(why, w)
		}
		return why, nil
	})
}

// notReady says what a workload waits for, "" for nothing. A new pod that is not up to date
// is an error: the next one would not be, either.
func (r *run) notReady(was, now Workload, known, gone map[string]bool) (string, error) {
	why := ""
	for _, p := range now.Pods {
		switch {
		case p.Going:
		case gone[p.UID]:
			why = cmp.Or(why, fmt.Sprintf("pod %s has not ended yet", p))
		case known[p.UID]:
		case p.Behind != "":
			return "", r.stop("pod %s, which is new, is not up to date (%s): somebody else's change of the pod, the templates have changed since this command began, or API servers do not call Pillion; pillion status says more", p, p.Behind)
		case !p.Ready:
			why = cmp.Or(why, fmt.Sprintf("pod %s, which is new, is not ready; kubectl -n %s describe pod %s says why", p, p.Namespace, p.Name))
		}
	}
	if want := min(was.there(), now.Desired); now.there() < want {
		why = cmp.Or(why, fmt.Sprintf("%s in namespace %s has %d pods, and had %d", was.Owner, was.Namespace, now.there(), want))
	}
	if want := min(was.ready(), now.Desired); now.ready() < want {
		why = cmp.Or(why, fmt.Sprintf("%s in namespace %s has %d ready pods, and had %d", was.Owner, was.Namespace, now.ready(), want))
	}
	return why, nil
}

// restart restarts workloads, and waits until their rolling updates are at their end.
func (r *run) restart(ctx context.Context, v view, size int) error {
	var wave []Workload
	for _, w := range v.workloads {
		if len(w.behind()) > 0 && len(wave) < size {
			wave = append(wave, w)
		}
	}
	r.wave++
	began := time.Now()
	var all []string
	known := map[string]bool{}
	var owners []Owner
	for _, w := range wave {
		all, owners = append(all, w.Namespace+"/"+w.String()), append(owners, w.Owner)
		for _, p := range w.Pods {
			known[p.UID] = true
		}
	}
	r.say("wave %d: %s", r.wave, strings.Join(all, ", "))
	for _, w := range wave {
		if err := r.Cluster.Restart(ctx, w.Owner, time.Now(), false); err != nil {
			return r.failed(ctx, err, "")
		}
		r.touched = true
		r.done++
	}
	err := r.await(ctx, func() (string, error) { return r.rolling(ctx, owners, known) })
	if err == nil {
		r.say("  ready again after %s", time.Since(began).Round(time.Second))
	}
	return err
}

// rolling says what rolling updates wait for, "" for nothing.
func (r *run) rolling(ctx context.Context, owners []Owner, known map[string]bool) (waits string, err error) {
	v, err := r.look(ctx, namespacesOf(owners), owners...)
	if err != nil {
		return "", err
	}
	for _, o := range owners {
		w := v.workload(o)
		if _, err := r.notReady(Workload{Owner: o}, w, known, nil); err != nil {
			return "", err
		}
		object, err := r.Cluster.Object(ctx, o)
		if err != nil {
			return "", err
		}
		why, stuck := RolledOut(o.Kind, object)
		if why == "" && len(w.behind()) > 0 {
			why = fmt.Sprintf("%d of its pods are unchanged", len(w.behind()))
		}
		if why != "" {
			why = fmt.Sprintf("%s in namespace %s: %s", o, o.Namespace, why)
		}
		if stuck {
			return "", r.stop("%s", why)
		}
		waits = cmp.Or(waits, why)
	}
	return waits, nil
}

// namespacesOf are the namespaces of owners, each once.
func namespacesOf(owners []Owner) []string {
	all := map[string]bool{}
	for _, o := range owners {
		all[o.Namespace] = true
	}
	return slices.Sorted(maps.Keys(all))
}
