package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector/patch"
)

// tries bounds the patches of a pod that other clients change at the same time.
const tries = 5

// dryRunInPlace makes a dry run of the change of a workload's first pod.
func (r *run) dryRunInPlace(ctx context.Context, w workload) (why string, err error) {
	_, change, err := r.patch(ctx, w.pods[0], true)
	for _, s := range change.Sidecars {
		r.printf("  %s in namespace %s: sidecar %s", w.Owner, w.Namespace, s)
	}
	return "", err
}

// change changes a pod in place, and waits until its sidecars run again.
func (r *run) change(ctx context.Context, p Pod) error {
	before, change, err := r.patch(ctx, p, false)
	if err != nil || before == nil {
		return err
	}
	return r.poll(ctx, func() (string, error) { return r.pendingReason(ctx, p, before, change.Sidecars) })
}

// patch patches a pod, and returns the pod before the patch. before is nil if the pod does not exist any
// more or needs no change.
func (r *run) patch(ctx context.Context, p Pod, dryRun bool) (before map[string]any, change Change, err error) {
	for try := 1; ; try++ {
		pod, err := r.Cluster.Pod(ctx, p.Namespace, p.Name)
		if apierrors.IsNotFound(err) {
			return nil, Change{}, nil
		}
		if err != nil {
			return nil, Change{}, err
		}
		now, err := r.compare(ctx, pod)
		if err != nil || r.stateOf(now) == "" || podOf(pod).UID != p.UID {
			return nil, Change{}, err
		}
		change, why := InPlace(pod, now)
		if why != "" {
			return nil, Change{}, nil
		}
		err = r.Cluster.Patch(ctx, p, encodePatch(pod, change), dryRun)
		switch {
		case err == nil:
			return pod, change, nil
		case apierrors.IsNotFound(err):
			return nil, Change{}, nil
		case try == tries || !apierrors.IsInvalid(err) && !apierrors.IsConflict(err):
			return nil, Change{}, err
		}
	}
}

// encodePatch encodes a change as a JSON patch that fails if the pod has changed meanwhile.
func encodePatch(pod map[string]any, c Change) []byte {
	var guards []patch.Operation
	for _, field := range []string{"uid", "resourceVersion"} {
		value, _, _ := unstructured.NestedString(pod, "metadata", field)
		guards = append(guards, patch.New(patch.Test, []string{"metadata", field}, value))
	}
	return patch.Marshal(append(guards, c.Operations...))
}

// pendingReason returns the reason why a changed pod is not ready yet, or "". It returns an error if the
// pod cannot become ready.
func (r *run) pendingReason(ctx context.Context, p Pod, before map[string]any, sidecars []Sidecar) (why string, err error) {
	pod, err := r.Cluster.Pod(ctx, p.Namespace, p.Name)
	if apierrors.IsNotFound(err) || err == nil && podOf(pod).UID != p.UID {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	was, status := statusOf(before), statusOf(pod)
	for _, s := range sidecars {
		of := sidecarStatus(status, s.Name)
		waiting := corev1.ContainerStateWaiting{}
		if of.State.Waiting != nil {
			waiting = *of.State.Waiting
		}
		switch {
		case slices.Contains([]string{"InvalidImageName", "ErrImageNeverPull"}, waiting.Reason):
			return "", fmt.Errorf("sidecar %s of pod %s does not start with the image %s: %s: %s", s.Name, p, s.To, waiting.Reason, waiting.Message)
		case of.State.Running == nil, of.ContainerID == sidecarStatus(was, s.Name).ContainerID, !of.Ready:
			return fmt.Sprintf("sidecar %s of pod %s does not run with the image %s: %s", s.Name, p, s.To,
				cmp.Or(waiting.Reason, "the kubelet has not restarted it yet, or it is not ready")), nil
		}
	}
	if isReady(was) && !isReady(status) {
		return fmt.Sprintf("pod %s is not ready", p), nil
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
