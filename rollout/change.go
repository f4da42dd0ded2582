package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	return r.await(ctx, func() (waits string, err error) {
		for _, c := range all {
			why, err := r.settled(ctx, c)
			if err != nil {
				return "", err
			}
			waits = cmp.Or(waits, why)
		}
		return waits, nil
	})
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
		v, err := r.Judge.judge(ctx, pod, ns)
		if err != nil || v.behind == "" || podOf(pod).UID != p.UID {
			return nil, err
		}
		change, why := InPlace(pod, r.Judge.statusKey(), v.now)
		if why != "" {
			return nil, nil
		}
		err = r.Cluster.Patch(ctx, p, guarded(pod, change), dryRun)
		switch {
		case err == nil:
			r.touched = r.touched || !dryRun
			c := &changed{Pod: p, sidecars: change.Sidecars, ids: map[string]string{}}
			for _, s := range change.Sidecars {
				c.ids[s.Name] = sidecarStatus(statusOf(pod), s.Name).ContainerID
			}
			return c, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case try == tries || !apierrors.IsInvalid(err) && !apierrors.IsConflict(err):
			return nil, err
		}
	}
}

// settled says what a changed pod waits for, "" for nothing. It is an error if waiting does not help.
func (r *run) settled(ctx context.Context, c changed) (why string, err error) {
	pod, err := r.Cluster.Pod(ctx, c.Namespace, c.Name)
	if apierrors.IsNotFound(err) || err == nil && podOf(pod).UID != c.UID {
		return "", nil // the next look judges the one that took its place
	}
	if err != nil {
		return "", err
	}
	status := statusOf(pod)
	for _, s := range c.sidecars {
		of := sidecarStatus(status, s.Name)
		waiting := corev1.ContainerStateWaiting{}
		if of.State.Waiting != nil {
			waiting = *of.State.Waiting
		}
		switch {
		case slices.Contains([]string{"InvalidImageName", "ErrImageNeverPull"}, waiting.Reason):
			return "", r.stop("sidecar %s of pod %s does not start with the image %s: %s: %s", s.Name, c.Pod, s.To, waiting.Reason, waiting.Message)
		case of.State.Running == nil, of.ContainerID == c.ids[s.Name], !of.Ready:
			return fmt.Sprintf("sidecar %s of pod %s does not run with the image %s: %s", s.Name, c.Pod, s.To,
				cmp.Or(waiting.Reason, "the kubelet has not restarted it yet, or it is not ready")), nil
		}
	}
	generation := (&unstructured.Unstructured{Object: pod}).GetGeneration()
	if seen := status.ObservedGeneration; len(c.sidecars) > 0 && seen > 0 && seen < generation {
		return fmt.Sprintf("the kubelet has not seen the change of pod %s yet", c.Pod), nil
	}
	if c.Ready && !isReady(status) {
		return fmt.Sprintf("pod %s is not ready", c.Pod), nil
	}
	return "", nil
}

// sidecarStatus returns the status of an init container.
func sidecarStatus(status corev1.PodStatus, name string) corev1.ContainerStatus {
	for _, s := range status.InitContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}
