package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/record"
)

// dryRunAll moves the workloads for which a dry run fails to the rest, with the reason.
func (r *run) dryRunAll(ctx context.Context, p plan) (plan, error) {
	all := p.workloads
	p.workloads = nil
	for _, w := range all {
		try := r.dryRunInPlace
		if r.Mode == Restart {
			try = r.dryRunRestart
		}
		why, err := try(ctx, w)
		var missing *rights.MissingError
		switch {
		case errors.As(err, &missing):
			why = missing.Sentence()
		case apierrors.IsNotFound(err):
			continue // a deleted workload has no pods soon
		case ctx.Err() != nil:
			return p, err
		case err != nil:
			why = err.Error()
		}
		if why != "" {
			p.add(remainder{Owner: w.Owner, why: w.state + "; " + why, pods: len(w.pods)})
			continue
		}
		p.workloads = append(p.workloads, w)
	}
	return p, nil
}

// dryRunRestart makes dry runs of a workload's restart and of the creation of its first new pod. It
// returns the reason why the workload cannot be restarted, or "".
func (r *run) dryRunRestart(ctx context.Context, w workload) (why string, err error) {
	object, err := r.Cluster.Object(ctx, w.Owner)
	if err != nil {
		return "", err
	}
	if why := restartObstacle(w.Owner, object); why != "" {
		return why, nil
	}
	if err := r.Cluster.Restart(ctx, w.Owner, time.Now(), true); err != nil {
		return "", err
	}
	pod, err := r.Cluster.Pod(ctx, w.Namespace, w.pods[0].Name)
	if err != nil {
		return "", err
	}
	now, err := r.compare(ctx, pod)
	if err != nil || r.stateOf(now) == "" {
		return "", err
	}
	return r.dryRunPod(ctx, w, now), nil
}

// dryRunPod creates a pod of a workload by dry run, with all webhooks, policies and quotas of the
// namespace. It returns the reason why a new pod would not be up to date, or "".
func (r *run) dryRunPod(ctx context.Context, w workload, now drift.Comparison) (why string) {
	created, err := r.Cluster.Create(ctx, w.Namespace, newPod(now.Base))
	var missing *rights.MissingError
	switch {
	case err == nil:
	case errors.As(err, &missing):
		if !r.untestable[w.Namespace] {
			r.untestable[w.Namespace] = true
			r.printf("  in namespace %s new pods are not tried by dry run: that takes the right to %s", w.Namespace, missing.Right)
		}
		return ""
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return "" // the replaced pods free the quota
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"):
		r.printf("  new pods of %s cannot be tried by dry run: %v", w.Owner, err)
		return ""
	default:
		return fmt.Sprintf("a new pod would be refused: %v", err)
	}
	if lacks := r.formatMissing(now, created); lacks != "" {
		return fmt.Sprintf("a new pod would not be up to date: %s (by dry run; pillion status says whether Pillion answers, and from which templates)", lacks)
	}
	return ""
}

// formatMissing formats the templates that the pod of a dry run lacks. It returns "" if there are none.
func (r *run) formatMissing(now drift.Comparison, created map[string]any) string {
	rec, err := record.Parse(created)
	if err != nil {
		return fmt.Sprintf("its record cannot be read: %v", err)
	}
	var wrong []string
	for _, t := range now.Templates {
		if got := rec.Hash(t.Name); t.Gets != "" && got == "" {
			wrong = append(wrong, fmt.Sprintf("it comes without %s", t.Name))
		} else if t.Gets != "" && got != t.Gets {
			wrong = append(wrong, fmt.Sprintf("it comes with version %s of %s, where %s is in force", got, t.Name, t.Gets))
		}
	}
	return strings.Join(wrong, "; ")
}

// newPod returns a pod for a dry run from the base of an existing pod.
func newPod(base map[string]any) map[string]any {
	pod := maps.Clone(base)
	metadata := maps.Clone(pod["metadata"].(map[string]any))
	pod["metadata"] = metadata
	if metadata["name"] != nil {
		metadata["generateName"] = fmt.Sprint(metadata["name"], "-")
		delete(metadata, "name")
	}
	if refs, ok := metadata["ownerReferences"].([]any); ok {
		refs = slices.Clone(refs)
		for i, ref := range refs {
			if r, ok := ref.(map[string]any); ok {
				r = maps.Clone(r)
				delete(r, "blockOwnerDeletion") // to set it needs a right on the owner
				refs[i] = r
			}
		}
		metadata["ownerReferences"] = refs
	}
	return pod
}
