package injector

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
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

// checkFiles returns a *fileError if a pod does not have the files of the templates as these render
// them, or has more annotations than the API allows.
func (c *call) checkFiles(pod map[string]any, turns []turn) error {
	largest, bytes := "", 0
	for _, t := range turns {
		if t.files == nil {
			continue
		}
		if err := c.checkFilesOf(t.outcome.Name, t.files, pod); err != nil {
			return err
		}
		if t.files.Bytes() > bytes {
			largest, bytes = t.outcome.Name, t.files.Bytes()
		}
	}
	if largest == "" {
		return nil
	}
	total := 0
	for key, value := range annotationsOf(pod) {
		text, _ := value.(string)
		total += len(key) + len(text)
	}
	if total <= maxAnnotations {
		return nil
	}
	return &fileError{template: largest, code: reason.TemplateTooExpensive, why: fmt.Sprintf(tooManyBytes, total, maxAnnotations, bytes)}
}

// checkFilesOf compares a pod's annotations and volume with a template's files. In other places a pod's
// annotation wins over a template's, and later changes stay. Here both are refused, because a pod could
// otherwise replace the text that a sidecar reads.
func (c *call) checkFilesOf(template string, files *templates.Files, pod map[string]any) error {
	annotations := annotationsOf(pod)
	for _, key := range slices.Sorted(maps.Keys(files.Texts)) {
		if annotations[key] != files.Texts[key] {
			return &fileError{template: template, code: reason.Conflict, why: fmt.Sprintf(annotationTaken, key, c.copyHint())}
		}
	}
	name := files.Volume["name"]
	spec, _ := pod["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		if item, _ := v.(map[string]any); item["name"] == name && podschema.Equal(podschema.At("spec.volumes[]"), v, files.Volume) {
			return nil
		}
	}
	return &fileError{template: template, code: reason.Conflict, why: fmt.Sprintf(volumeTaken, name, c.copyHint())}
}

// copyHint completes a message for a pod with a record, which may be a copy of another pod.
func (c *call) copyHint() string {
	if annotationsOf(c.request.Pod)[v1alpha1.StatusKey] == nil {
		return ""
	}
	return copiedPod
}

func annotationsOf(pod map[string]any) map[string]any {
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}

func podLabels(pod map[string]any) map[string]string {
	metadata, _ := pod["metadata"].(map[string]any)
	return stringMap(metadata["labels"])
}

// stringMap returns a JSON object's string values. The API server has checked
// that all are strings; the command line decodes them first.
func stringMap(v any) map[string]string {
	object, _ := v.(map[string]any)
	if len(object) == 0 {
		return nil
	}
	m := make(map[string]string, len(object))
	for k, v := range object {
		if s, ok := v.(string); ok {
			m[k] = s
		}
	}
	return m
}
