package drift

import (
	"maps"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// created returns a pod as its creator sent it: without the fields that the API server, the scheduler, the
// kubelet and other controllers set later. It keeps annotations that begin with own, whoever set them.
//
// The managedFields tell which labels and annotations the creator set. A label that an operator sets on a
// running pod selects no template for a new pod.
func created(pod map[string]any) map[string]any {
	pod = maps.Clone(pod)
	delete(pod, "status")
	if metadata, ok := pod["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		since := writtenSince(metadata)
		if generated, _ := metadata["generateName"].(string); generated != "" {
			delete(metadata, "name")
		}
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"} {
			delete(metadata, field)
		}
		for field, keys := range since {
			object, ok := metadata[field].(map[string]any)
			if !ok {
				continue
			}
			object = maps.Clone(object)
			for key := range keys {
				if !strings.HasPrefix(key, v1alpha1.Group+"/") && !strings.Contains(key, "."+v1alpha1.Group+"/") {
					delete(object, key)
				}
			}
			metadata[field] = object
		}
		pod["metadata"] = metadata
	}
	if spec, ok := pod["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "nodeName")
		delete(spec, "ephemeralContainers")
		pod["spec"] = spec
	}
	return pod
}

// writtenSince returns the keys of labels and annotations that were set after the pod's creation, by field. It
// returns none if the managedFields do not tell.
func writtenSince(metadata map[string]any) map[string]map[string]bool {
	at, ok := moment(metadata["creationTimestamp"])
	entries, _ := metadata["managedFields"].([]any)
	if !ok {
		return nil
	}
	first, later := map[string]map[string]bool{}, map[string]map[string]bool{}
	known := false
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		when, ok := moment(entry["time"])
		fields, _ := entry["fieldsV1"].(map[string]any)
		inMetadata, _ := fields["f:metadata"].(map[string]any)
		into := later
		if !ok || !when.After(at) {
			// The entry's time is that of its manager's last write.
			known, into = true, first
		}
		for _, field := range []string{"labels", "annotations"} {
			keys, _ := inMetadata["f:"+field].(map[string]any)
			for key := range keys {
				if name, ok := strings.CutPrefix(key, "f:"); ok {
					if into[field] == nil {
						into[field] = map[string]bool{}
					}
					into[field][name] = true
				}
			}
		}
	}
	if !known {
		return nil // the pod's creator wrote to it again
	}
	for field, keys := range later {
		for key := range keys {
			if first[field][key] {
				delete(keys, key)
			}
		}
	}
	return later
}

func moment(v any) (time.Time, bool) {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}
