package record

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// hashLength is how much of a template's hash a label has: enough to tell versions apart, and
// short enough for a column.
const hashLength = 10

// Labels returns the labels of a pod with this record, into which templates were injected.
func (r Record) Labels(templates []string) map[string]any {
	wanted := make(map[string]any, len(templates)+1)
	wanted[v1alpha1.InjectedLabel] = injected
	for _, name := range templates {
		wanted[v1alpha1.HashLabel(name)] = ShortHash(r.Hash(name))
	}
	return wanted
}

// ShortHash returns what a label has of a template's hash.
func ShortHash(hash string) string { return hash[:min(len(hash), hashLength)] }

// mostUntrue bounds the keys that [Record.Untrue] returns.
const mostUntrue = 4

// Untrue returns the keys of the pod's labels that say of Pillion what the record does not
// say, in order. There may be more than it returns.
func (r Record) Untrue(pod map[string]any) []string {
	metadata, _ := pod["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	var untrue []string
	for key, value := range labels {
		if template, is := OwnLabel(key); is && !r.holds(template, value) {
			untrue = append(untrue, key)
		}
	}
	slices.Sort(untrue)
	return untrue[:min(len(untrue), mostUntrue)]
}

// holds reports whether the value of a label is true: of a template's hash, or, where
// template is "", of an injected pod.
func (r Record) holds(template string, value any) bool {
	if template == "" {
		return !r.Empty() && value == injected
	}
	hash := r.Hash(template)
	return hash != "" && value == ShortHash(hash)
}
