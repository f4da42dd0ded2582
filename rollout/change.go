package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// tries bounds how often a pod is read again because it changed in between.
const tries = 5

// changed is a pod that was changed in place.
type changed struct {
	Pod
	sidecars []Sidecar
	// ids are those of the sidecars' containers before the change.
	ids map[string]string
}

// inPlaceWave changes the pods of a wave, and waits until their sidecars run again.
func (r *run) inPlaceWave(ctx context.Context, wave []Pod) error {
	var all []changed
	for _, p := range wave {
		c, err := r.changeOne(ctx, p, false)
		if err != nil {
			return r.failed(ctx, err, "")
		}
		if c != nil {
			all = append(all, *c)
			r.done++
		}
	}
	for before := ""; ; {
		waits := ""
		for _, c := range all {
			why, fatal, err := r.settled(ctx, c)
			switch {
			case err != nil:
				return r.failed(ctx, err, before)
			case fatal:
				return r.stop("%s", why)
			}
			waits = cmp.Or(waits, why)
		}
		if before = waits; waits == "" {
			return nil
		}
		if !r.pause(ctx) {
			return r.late(ctx, waits)
		}
	}
}

// changeOne changes a pod. It returns nil for one that is gone or has nothing to change.
func (r *run) changeOne(ctx context.Context, p Pod, dryRun bool) (*changed, error) {
	for try := 1; ; try++ {
		pod, err := r.Cluster.Pod(ctx, p.Namespace, p.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		ns, err := r.namespace(ctx, p.Namespace)
		if err != nil {
			return nil, err
		}
		v, err := r.judge.judge(ctx, pod, ns)
		if err != nil || v.behind == "" || podOf(pod).UID != p.UID {
			return nil, err
		}
		change, why, err := r.judge.inPlace(ctx, pod, ns, v)
		if err != nil || why != "" {
			return nil, err
		}
		err = r.Cluster.Patch(ctx, p, guarded(pod, change), dryRun)
		switch {
		case err == nil:
			r.touched = r.touched || !dryRun
			c := &changed{Pod: p, sidecars: change.Sidecars, ids: map[string]string{}}
			for _, s := range change.Sidecars {
				c.ids[s.Name] = text(statusOf(pod, s.Name), "containerID")
			}
			return c, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case try == tries || !apierrors.IsInvalid(err) && !apierrors.IsConflict(err):
			return nil, err
		}
	}
}

// settled says what a changed pod waits for, "" for nothing. Fatal reports that waiting
// does not help.
func (r *run) settled(ctx context.Context, c changed) (why string, fatal bool, err error) {
	pod, err := r.Cluster.Pod(ctx, c.Namespace, c.Name)
	if apierrors.IsNotFound(err) || err == nil && podOf(pod).UID != c.UID {
		return "", false, nil // the next look judges the one that took its place
	}
	if err != nil {
		return "", false, err
	}
	for _, s := range c.sidecars {
		status := statusOf(pod, s.Name)
		reason := text(status, "state", "waiting", "reason")
		switch {
		case slices.Contains([]string{"InvalidImageName", "ErrImageNeverPull"}, reason):
			return fmt.Sprintf("sidecar %s of pod %s does not start with the image %s: %s: %s", s.Name, c.Pod, s.To, reason, text(status, "state", "waiting", "message")), true, nil
		case at(status, "state", "running") == nil, text(status, "containerID") == c.ids[s.Name], status["ready"] != true:
			if reason == "" {
				reason = "the kubelet has not restarted it yet, or it is not ready"
			}
			return fmt.Sprintf("sidecar %s of pod %s does not run with the image %s: %s", s.Name, c.Pod, s.To, reason), false, nil
		}
	}
	if seen := number(pod, "status", "observedGeneration"); len(c.sidecars) > 0 && seen > 0 && seen < number(pod, "metadata", "generation") {
		return fmt.Sprintf("the kubelet has not seen the change of pod %s yet", c.Pod), false, nil
	}
	if c.Ready && !isReady(pod) {
		return fmt.Sprintf("pod %s is not ready", c.Pod), false, nil
	}
	return "", false, nil
}

// statusOf returns the status of an init container.
func statusOf(pod map[string]any, name string) map[string]any {
	for _, status := range list(pod, "status", "initContainerStatuses") {
		if s, ok := status.(map[string]any); ok && s["name"] == name {
			return s
		}
	}
	return nil
}
