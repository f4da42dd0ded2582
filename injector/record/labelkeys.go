package record

import (
	"maps"
	"strings"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// injected is the value of the label [v1alpha1.InjectedLabel].
const injected = "true"

// OwnLabel reports whether Pillion sets a label of that key on injected pods, for kubectl get pods -l. Template
// is the template of a hash label, "" for [v1alpha1.InjectedLabel]. Labels prove nothing, since anyone who may
// change a pod may set them. The record lists the injected templates.
func OwnLabel(key string) (template string, is bool) {
	name, ok := strings.CutSuffix(key, v1alpha1.HashLabel(""))
	if ok {
		return name, name != "" && !strings.Contains(name, ".")
	}
	return "", key == v1alpha1.InjectedLabel
}

// WithoutLabels returns the pod without the labels. The pod is not modified.
func WithoutLabels(pod map[string]any) map[string]any {
	labels := labelsOf(pod)
	var kept map[string]any
	for key := range labels {
		if _, is := OwnLabel(key); !is {
			continue
		}
		if kept == nil {
			kept = maps.Clone(labels)
		}
		delete(kept, key)
	}
	if kept == nil {
		return pod
	}
	pod = maps.Clone(pod)
	metadata := maps.Clone(pod["metadata"].(map[string]any))
	metadata["labels"], pod["metadata"] = kept, metadata
	return pod
}

// labelsOf returns the pod's labels, nil for none.
func labelsOf(pod map[string]any) map[string]any {
	metadata, _ := pod["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return labels
}
