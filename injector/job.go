package injector

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
)

// jobWarnings warns of each added container that prevents the pod's Job from finishing. A Job's pod ends when
// all its ordinary containers have ended, and an ordinary sidecar does not end. A native sidecar does.
func jobWarnings(base map[string]any, template string, writes []merge.Write) []string {
	if of, _ := owner.Controller(base); of.Kind != "Job" || of.APIVersion != batchv1.SchemeGroupVersion.String() {
		return nil
	}
	var warnings []string
	for _, w := range writes {
		if segments := w.Path.Segments(); w.Effect == merge.Added && len(segments) == 3 && segments[1] == "containers" {
			name, _ := w.Value.(map[string]any)["name"].(string)
			warnings = append(warnings, reason.JobNeverFinishes.Warning(fmt.Sprintf(jobNeverEnds, template, name)))
		}
	}
	return warnings
}
