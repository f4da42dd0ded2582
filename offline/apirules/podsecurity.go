package apirules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// PodSecurity returns the strictest Pod Security Standard that a pod keeps to, in the
// newest version that this build knows, and why the pod breaks the next stricter one.
func PodSecurity(pod *corev1.Pod) (level api.Level, why string) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("apirules: preparing the Pod Security checks: %v", err))
	}
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		results := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
		if results.Allowed {
			return level, why
		}
		why = fmt.Sprintf("%s: %s", level, results.ForbiddenDetail())
	}
	return api.LevelPrivileged, why
}
