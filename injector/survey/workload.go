package survey

import "strings"

// Workload is what a person restarts to get new pods.
type Workload struct {
	// Kind is empty for a pod that no controller made.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// String names the workload as kubectl does.
func (w Workload) String() string {
	if w.Kind == "" {
		return "bare pods"
	}
	return strings.ToLower(w.Kind) + "/" + w.Name
}

// WorkloadOf returns the workload that a pod belongs to, by what the pod itself says. Nothing
// is read: a Deployment's ReplicaSets have its name, and a hash that their pods have as a
// label.
func WorkloadOf(pod map[string]any) Workload {
	metadata, _ := pod["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, item := range owners {
		owner, _ := item.(map[string]any)
		if controller, _ := owner["controller"].(bool); !controller {
			continue
		}
		kind, _ := owner["kind"].(string)
		name, _ := owner["name"].(string)
		if hash, _ := labels["pod-template-hash"].(string); kind == "ReplicaSet" && hash != "" {
			if deployment, ok := strings.CutSuffix(name, "-"+hash); ok {
				return Workload{"Deployment", deployment}
			}
		}
		return Workload{kind, name}
	}
	return Workload{}
}
