package record

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// hashLength is the length of the hash in a label: enough to tell versions apart, and short enough for a
// column.
const hashLength = 10

// Labels returns the labels of a pod with this record and these injected templates.
func (r Record) Labels(templates []string) map[string]any {
	wanted := make(map[string]any, len(templates)+1)
	wanted[v1alpha1.InjectedLabel] = injected
	for _, name := range templates {
		wanted[v1alpha1.HashLabel(name)] = ShortHash(r.Hash(name))
	}
	return wanted
}

// ShortHash returns the part of a template's hash that its label has.
func ShortHash(hash string) string { return hash[:min(len(hash), hashLength)] }

// mostUntrue bounds the keys that [Record.Untrue] returns.
const mostUntrue = 4

// Untrue returns labels of the pod that contradict the record, in order. It may omit some.
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

// holds reports whether a label's value is true: a template's hash, or the mark of an injected pod if template
// is "".
func (r Record) holds(template string, value any) bool {
	if template == "" {
		return !r.Empty() && value == injected
	}
	hash := r.Hash(template)
	return hash != "" && value == ShortHash(hash)
}
