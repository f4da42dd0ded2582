package apirules

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// PodSecurity returns the strictest Pod Security Standard that a pod keeps to, in the
// newest version that this build knows, and why the pod breaks the next stricter one.
func PodSecurity(pod *corev1.Pod) (level api.Level, why string) {
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		forbidden := Forbidden(api.LevelVersion{Level: level, Version: api.LatestVersion()}, pod)
		if forbidden == "" {
			return level, why
		}
		why = fmt.Sprintf("%s: %s", level, forbidden)
	}
	return api.LevelPrivileged, why
}

// podSecurity has Kubernetes' own checks.
var podSecurity = sync.OnceValue(func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("apirules: preparing the Pod Security checks: %v", err))
	}
	return evaluator
})

// Forbidden says what a level of the Pod Security Standards forbids of a pod, "" for nothing.
func Forbidden(level api.LevelVersion, pod *corev1.Pod) string {
	results := policy.AggregateCheckResults(podSecurity().EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	if results.Allowed {
		return ""
	}
	return results.ForbiddenDetail()
}
