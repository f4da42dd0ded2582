package injector

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
)

// warnOfJob warns of each sidecar that keeps the Job of the pod from finishing. The Job's pod ends when
// every ordinary container has ended, and a sidecar does not end with the work. A native sidecar does.
func (w *injection) warnOfJob() {
	if of, _ := owner.Controller(w.base); of.Kind != "Job" || of.APIVersion != batchv1.SchemeGroupVersion.String() {
		return
	}
	own := sets.New(append(namesIn(w.base, "initContainers"), namesIn(w.base, "containers")...)...)
	for _, f := range w.fragments {
		for _, name := range namesIn(f.Object, "containers") {
			if !own.Has(name) {
				w.out.Warnings = append(w.out.Warnings, reason.JobNeverFinishes.Warning(fmt.Sprintf(
					"template %s: the Job finishes only when the container %s ends, too, and a sidecar does not end with the work: "+
						"the template's author can make it a native sidecar (spec.initContainers, restartPolicy: Always), or keep it from Jobs by a matchCondition", f.Template, name)))
			}
		}
	}
}

// namesIn returns the names of the items of a list in an object's spec.
func namesIn(object map[string]any, list string) []string {
	spec, _ := object["spec"].(map[string]any)
	items, _ := spec[list].([]any)
	var names []string
	for _, item := range items {
		fields, _ := item.(map[string]any)
		if name, ok := fields["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}
