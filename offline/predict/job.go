package predict

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// job finds sidecars that keep a Job from finishing: its pod ends when each ordinary container
// has, and a sidecar does not end with the work. A native sidecar does.
func (p *prediction) job() {
	owner := metav1.GetControllerOf(p.after)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() || p.after.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return
	}
	for _, c := range p.after.Spec.Containers {
		own := func(o corev1.Container) bool { return o.Name == c.Name }
		if !slices.ContainsFunc(p.before.Spec.Containers, own) {
			p.add(Trouble{Source: Job, Says: "the Job finishes only when the container " + c.Name + " ends, too, and a sidecar does not end with the work"}, []string{"spec", "containers", c.Name})
		}
	}
}
