package injector

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// maxAnnotations is how many bytes of keys and values the API allows an object's annotations.
const maxAnnotations = 256 << 10

// fileError is a template whose files a pod cannot have.
type fileError struct {
	template string
	code     reason.Code
	why      string
}

func (e *fileError) Error() string { return "template " + e.template + ": " + e.why }

// checkFiles returns a *fileError if a pod does not have the files of a template as the
// template renders them. A pod's own annotation stays elsewhere, and what somebody changed
// since an earlier call stays, too. Either way a pod could give a sidecar its own text for the
// template's, so here neither is allowed.
func (w *injection) checkFiles(pod map[string]any) error {
	annotations := annotationsOf(pod)
	var volumes map[any]any
	for _, name := range w.decision.Inject {
		t, ok := w.rendered[name]
		if !ok || t.files == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(t.files.Texts)) {
			if annotations[key] != t.files.Texts[key] {
				return &fileError{template: name, code: reason.Conflict, why: fmt.Sprintf(
					"the annotation %q of the pod differs from the template's file, which Pillion writes there for the sidecar. Remove the annotation from the pod%s", key, w.copied())}
			}
		}
		if volumes == nil {
			volumes = volumesOf(pod)
		}
		if volume := t.files.Volume; !podschema.Equal(podschema.At("spec.volumes[]"), volumes[volume["name"]], volume) {
			return &fileError{template: name, code: reason.Conflict, why: fmt.Sprintf(
				"the pod has a volume %q of its own, a name that Pillion needs for the template's files. Remove the volume from the pod, or rename it%s", volume["name"], w.copied())}
		}
	}
	return w.checkAnnotations(annotations)
}

// copied ends a message about what a pod brings along, if the pod has a record, too.
func (w *injection) copied() string {
	if annotationsOf(w.request.Pod)[w.pipeline.statusKey] == nil {
		return ""
	}
	return fmt.Sprintf("; if the pod is a copy of an injected pod, run pillion uninject, or remove the annotation %s", w.pipeline.statusKey)
}

// volumesOf returns the volumes of a pod by name.
func volumesOf(pod map[string]any) map[any]any {
	spec, _ := pod["spec"].(map[string]any)
	items, _ := spec["volumes"].([]any)
	volumes := make(map[any]any, len(items))
	for _, v := range items {
		if item, ok := v.(map[string]any); ok {
			if name, ok := item["name"].(string); ok {
				volumes[name] = v
			}
		}
	}
	return volumes
}

// checkAnnotations returns a *fileError if a pod with files has more annotations than the API
// allows. It names the template with the largest files.
func (w *injection) checkAnnotations(annotations map[string]any) error {
	largest, bytes := "", 0
	for _, name := range w.decision.Inject {
		if t, ok := w.rendered[name]; ok && t.files != nil && t.files.Bytes() > bytes {
			largest, bytes = name, t.files.Bytes()
		}
	}
	if largest == "" {
		return nil
	}
	total := 0
	for key, value := range annotations {
		text, _ := value.(string)
		total += len(key) + len(text)
	}
	if total <= maxAnnotations {
		return nil
	}
	return &fileError{template: largest, code: reason.TemplateTooExpensive, why: fmt.Sprintf(
		"the pod's annotations would have %d bytes, and the API allows %d: the template's files take %d of them. Make the files smaller, or mount a ConfigMap", total, maxAnnotations, bytes)}
}

func annotationsOf(pod map[string]any) map[string]any {
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}
