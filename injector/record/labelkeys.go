package record

import (
	"maps"
	"strings"
)

// injected is the value of the label [LabelKeys.Injected].
const injected = "true"

const statusName, injectedName, hashName = "/status", "/injected", "/hash"

// LabelKeys are the keys of the labels that Pillion puts on injected pods, so that kubectl get
// pods -l finds them: PREFIX/injected, and TEMPLATE.PREFIX/hash for each template. The labels
// are no proof. Who may change a pod may label it, and only the record says what was injected.
type LabelKeys struct{ prefix string }

// LabelKeysOf returns the keys beside the status annotation of that key.
func LabelKeysOf(statusKey string) LabelKeys {
	return LabelKeys{prefix: strings.TrimSuffix(statusKey, statusName)}
}

// Injected returns the key of the label that every injected pod has.
func (l LabelKeys) Injected() string { return l.prefix + injectedName }

// Hash returns the key of a template's label.
func (l LabelKeys) Hash(template string) string { return template + "." + l.prefix + hashName }

// Has reports whether a label of that key is Pillion's. Template is that of a hash, "" for
// [LabelKeys.Injected].
func (l LabelKeys) Has(key string) (template string, is bool) {
	if before, ok := strings.CutSuffix(key, hashName); ok {
		name, ok := strings.CutSuffix(before, l.prefix)
		if !ok {
			return "", false
		}
		name, ok = strings.CutSuffix(name, ".")
		return name, ok && name != "" && !strings.Contains(name, ".")
	}
	before, ok := strings.CutSuffix(key, injectedName)
	return "", ok && before == l.prefix
}

// Without returns the pod without the labels. The pod is not modified.
func (l LabelKeys) Without(pod map[string]any) map[string]any {
	labels := labelsOf(pod)
	var kept map[string]any
	for key := range labels {
		if _, is := l.Has(key); !is {
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
