package injector

import (
	"encoding/json"
	"fmt"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// NeverStarts returns the reason why the kubelet never starts a container of a pod, "" if it may: the container
// runs as root, and runAsNonRoot is true. The kubelet takes both from the container, or else from the pod. API
// servers accept such a pod.
func NeverStarts(pod, container map[string]any) string {
	ofPod := podschema.ObjectOf(podschema.ObjectOf(pod["spec"])["securityContext"])
	own := podschema.ObjectOf(container["securityContext"])
	user, userFrom := effective(own, ofPod, "runAsUser")
	nonRoot, nonRootFrom := effective(own, ofPod, "runAsNonRoot")
	if user != json.Number("0") || nonRoot != true {
		return ""
	}
	return fmt.Sprintf(neverStarts, container["name"], userFrom, nonRootFrom)
}

func effective(own, ofPod map[string]any, field string) (value any, from string) {
	if v := own[field]; v != nil {
		return v, "container"
	}
	return ofPod[field], "pod"
}

// userWarnings warns of each added container that never starts because of its user.
func userWarnings(pod map[string]any, template string, writes []merge.Write) []string {
	var warnings []string
	for _, w := range writes {
		if segments := w.Path.Segments(); w.Effect == merge.Added && len(segments) == 3 && (segments[1] == "containers" || segments[1] == "initContainers") {
			if why := NeverStarts(pod, podschema.ObjectOf(w.Value)); why != "" {
				warnings = append(warnings, "template "+template+": "+why)
			}
		}
	}
	return warnings
}
