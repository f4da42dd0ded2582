package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/patch"
)

// check finds, before anything is touched, what would go wrong: rights that are missing,
// pods that would be refused, new pods that would come without their sidecar.
func (r *run) check(ctx context.Context, v view) (problems []string, err error) {
	problems = refusals(v.refused)
	missing, creates, err := r.rights(ctx, v)
	if err != nil {
		return nil, err
	}
	problems = append(problems, missing...)
	if len(problems) > 0 {
		return problems, nil
	}
	for _, w := range v.workloads {
		problem, err := r.checkOne(ctx, w, creates[w.Namespace])
		if err != nil {
			return nil, err
		}
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems, nil
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

// rights returns the rights that are missing, and the namespaces in which the user may
// create pods, which a check by dry run needs.
func (r *run) rights(ctx context.Context, v view) (missing []string, creates map[string]bool, err error) {
	creates = map[string]bool{}
	asked := map[rights.Right]bool{}
	ask := func(right rights.Right) (bool, error) {
		if may, ok := asked[right]; ok {
			return may, nil
		}
		may, err := r.Cluster.May(ctx, right)
		asked[right] = may
		return may, err
	}
	for _, w := range v.workloads {
		need := rights.Right{Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: w.Namespace}
		switch r.Mode {
		case InPlaceMode:
			need = rights.Right{Verb: "patch", Resource: "pods", Namespace: w.Namespace}
		case Restart:
			resource, known := w.resource()
			if !known {
				continue // it cannot be restarted, which is said below
			}
			need = rights.Right{Verb: "patch", Group: resource.Group, Resource: resource.Resource, Namespace: w.Namespace}
		}
		may, err := ask(need)
		if err != nil {
			return nil, nil, err
		}
		if text := fmt.Sprintf("you lack the right to %s. An admin can grant it: %s", need, strings.Join(need.Grant(""), "; ")); !may && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
		if r.Mode == InPlaceMode {
			continue
		}
		before := len(asked)
		create := rights.Right{Verb: "create", Resource: "pods", Namespace: w.Namespace}
		if creates[w.Namespace], err = ask(create); err != nil {
			return nil, nil, err
		}
		if !creates[w.Namespace] && len(asked) > before {
			r.say("  in namespace %s new pods are not tried by dry run, only worked out: that takes the right to %s", w.Namespace, create)
		}
	}
	return missing, creates, nil
}

// checkOne tries what is to be done to a workload by dry run, with the first of its pods.
func (r *run) checkOne(ctx context.Context, w Workload, creates bool) (problem string, err error) {
	behind := w.behind()
	if len(behind) == 0 {
		return "", nil
	}
	if r.Mode == Restart {
		if problem, err := r.checkRestart(ctx, w); problem != "" || err != nil || r.stays[w.Owner] != "" {
			return problem, err
		}
	}
	if r.Mode == InPlaceMode {
		c, err := r.changeOne(ctx, behind[0], true)
		if err != nil {
			return err.Error(), nil
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
	if creates {
		if problem := r.tryNew(ctx, w, now); problem != "" {
			return problem, nil
		}
	}
	if r.Mode == Evict {
		if err := r.Cluster.Evict(ctx, behind[0], true); apierrors.IsTooManyRequests(err) {
			r.say("  %s in namespace %s has to wait: %v", w.Owner, w.Namespace, err)
		} else if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err.Error(), nil
		}
	}
	return "", nil
}

func (r *run) checkRestart(ctx context.Context, w Workload) (problem string, err error) {
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
		return err.Error(), nil
	}
	return "", nil
}

// tryNew creates a pod of a workload by dry run. The answer is the API server's own, with
// all that other webhooks, policies and the namespace say.
func (r *run) tryNew(ctx context.Context, w Workload, now verdict) (problem string) {
	created, err := r.Cluster.Create(ctx, w.Namespace, anew(now))
	switch {
	case err == nil:
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
		op, err := patch.New(patch.Test, []string{"metadata", field}, value)
		if err == nil { // it always is: both are plain text of the API server
			guards = append(guards, op)
		}
	}
	return patch.Marshal(append(guards, c.Operations...))
}
