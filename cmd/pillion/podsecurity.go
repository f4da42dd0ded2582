package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// podSecurityLevel returns the strictest Pod Security Standard that a pod keeps
// to, as the newest version that this build knows has it.
func podSecurityLevel(pod map[string]any) (api.Level, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	var typed corev1.Pod
	if err := json.Unmarshal(data, &typed); err != nil {
		return "", fmt.Errorf("reading the pod: %w", err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return "", fmt.Errorf("preparing the Pod Security checks: %w", err)
	}
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		results := evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &typed.ObjectMeta, &typed.Spec)
		if policy.AggregateCheckResults(results).Allowed {
			return level, nil
		}
	}
	return api.LevelPrivileged, nil
}
