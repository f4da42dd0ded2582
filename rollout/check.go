package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/patch"
)

// check finds, before anything is touched, what would go wrong: pods that would be refused, new pods
// that would come without their sidecar, rights that are missing.
func (r *run) check(ctx context.Context, v view) (problems []string, err error) {
	if problems = refusals(v.refused); len(problems) > 0 {
		return problems, nil
	}
	for _, w := range v.workloads {
		problem, err := r.checkOne(ctx, w)
		if err != nil {
			return nil, err
		}
		if problem != "" && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// problem is an error that keeps everything from being touched. A missing right is one problem,
// whatever was tried.
func problem(err error) string {
	var missing *rights.MissingError
	if errors.As(err, &missing) {
		return missing.Sentence()
	}
	return err.Error()
}

// refusals says of which workloads new pods would be refused, each reason once.
func refusals(refused []left) (problems []string) {
	of := map[string][]string{}
	var reasons []string
	for _, l := range refused {
		if of[l.why] == nil {
			reasons = append(reasons, l.why)
		}
		of[l.why] = append(of[l.why], l.what)
	}
	for _, why := range reasons {
		problems = append(problems, fmt.Sprintf("a new pod of %s would be refused: %s", strings.Join(of[why], ", or of "), why))
	}
	return problems
}

// checkOne tries what is to be done to a workload by dry run, with the first of its pods.
func (r *run) checkOne(ctx context.Context, w Workload) (wrong string, err error) {
	behind := w.behind()
	if len(behind) == 0 {
		return "", nil
	}
	if r.Mode == Restart {
		if wrong, err := r.checkRestart(ctx, w); wrong != "" || err != nil || r.stays[w.Owner] != "" {
			return wrong, err
		}
	}
	if r.Mode == InPlaceMode {
		c, err := r.changeOne(ctx, behind[0], true)
		if err != nil {
			return problem(err), nil
		}
		if c != nil {
			for _, s := range c.sidecars {
				r.say("  %s in namespace %s: sidecar %s", w.Owner, w.Namespace, s)
			}
		}
		return "", nil
	}
	pod, err := r.Cluster.Pod(ctx, w.Namespace, behind[0].Name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	ns, err := r.namespace(ctx, w.Namespace)
	if err != nil {
		return "", err
	}
	now, err := r.Judge.judge(ctx, pod, ns)
	if err != nil || now.behind == "" {
		return "", err
	}
	if r.Mode == Evict {
		if err := r.Cluster.Evict(ctx, behind[0], true); apierrors.IsTooManyRequests(err) {
			r.say("  %s in namespace %s has to wait: %v", w.Owner, w.Namespace, err)
		} else if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return problem(err), nil
		}
	}
	return r.tryNew(ctx, w, now), nil
}

func (r *run) checkRestart(ctx context.Context, w Workload) (wrong string, err error) {
	var object map[string]any
	if w.restartable() {
		if object, err = r.Cluster.Object(ctx, w.Owner); err != nil {
			return "", err
		}
	}
	if why := notRestartable(w.Owner, object); why != "" {
		r.say("  not touched: %s in namespace %s: %s", w.Owner, w.Namespace, why)
		r.stays[w.Owner] = why
		return "", nil
	}
	if err := r.Cluster.Restart(ctx, w.Owner, time.Now(), true); err != nil {
		return problem(err), nil
	}
	return "", nil
}

// tryNew creates a pod of a workload by dry run. The answer is the API server's own, with
// all that other webhooks, policies and the namespace say.
func (r *run) tryNew(ctx context.Context, w Workload, now verdict) (wrong string) {
	created, err := r.Cluster.Create(ctx, w.Namespace, anew(now))
	var missing *rights.MissingError
	switch {
	case err == nil:
	case errors.As(err, &missing):
		if !r.untried[w.Namespace] {
			r.untried[w.Namespace] = true
			r.say("  in namespace %s new pods are not tried by dry run, only worked out: that takes the right to %s", w.Namespace, missing.Right)
		}
		return ""
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return "" // the pods that go make room
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"):
		r.say("  new pods of %s cannot be tried by dry run: %v", w.Owner, err)
		return ""
	default:
		return fmt.Sprintf("a new pod of %s in namespace %s would be refused: %v", w.Owner, w.Namespace, err)
	}
	if lacks := r.Judge.lacks(now, created); lacks != "" {
		return fmt.Sprintf("a new pod of %s in namespace %s would not be up to date: %s (by dry run; pillion status says whether Pillion answers, and from which templates)", w.Owner, w.Namespace, lacks)
	}
	return ""
}

// guarded is the patch of a change, which fails if the pod has changed in between.
func guarded(pod map[string]any, c Change) []byte {
	var guards []patch.Operation
	for _, field := range []string{"uid", "resourceVersion"} {
		value, _, _ := unstructured.NestedString(pod, "metadata", field)
		guards = append(guards, patch.New(patch.Test, []string{"metadata", field}, value))
	}
	return patch.Marshal(append(guards, c.Operations...))
}
