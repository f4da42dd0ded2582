package apply

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// TooLargeError reports that the record of what the templates do would be larger than
// [record.MaxBytes].
type TooLargeError struct {
	// Bytes is the size of the record, Prior that of the record that the pod came with, 0 for none.
	Bytes, Prior int
}

func (e *TooLargeError) Error() string {
	prior := ""
	if e.Prior > 0 {
		prior = fmt.Sprintf("; the pod came with a record of %d bytes: if it is another pod's, remove the annotation from the pod", e.Prior)
	}
	return fmt.Sprintf("the record of what was injected would have %d bytes, %d are allowed%s", e.Bytes, record.MaxBytes, prior)
}

// The sections of the metadata that Pillion marks a pod in, in the order of its operations.
const labels, annotations = "labels", "annotations"

var sections = []string{labels, annotations}

// Mark writes the record into the pod's annotation, and the labels of the templates beside it. Base
// is the pod without any template. Its error is a [*TooLargeError], or for metadata that are no
// object a [*merge.PodError].
func (r *Result) Mark(base map[string]any, templates []string) error {
	metadata, ok := r.Pod["metadata"].(map[string]any)
	if !ok && r.Pod["metadata"] != nil {
		return malformed("metadata", r.Pod["metadata"])
	}
	before, _ := base["metadata"].(map[string]any)
	if len(before) == 0 {
		r.made((*podschema.Path)(nil).Field("metadata"), base, "metadata")
	}
	for _, section := range sections {
		if _, ok := metadata[section].(map[string]any); !ok && metadata[section] != nil {
			return malformed("metadata."+section, metadata[section])
		}
		// The base pod decides: what the pod has may be Pillion's own of an earlier call.
		if entries, _ := before[section].(map[string]any); len(entries) == 0 && hasKey(before, section) {
			r.made((*podschema.Path)(nil).Field("metadata").Field(section), before, section)
		}
	}
	text := r.Record.Encode()
	if len(text) > record.MaxBytes {
		return &TooLargeError{Bytes: len(text)}
	}
	wanted := map[string]map[string]any{labels: r.Record.Labels(templates), annotations: {v1alpha1.StatusKey: text}}
	a, at := &run{}, (*location)(nil).field("metadata")
	marked := maps.Clone(metadata)
	if metadata == nil {
		marked = map[string]any{labels: wanted[labels], annotations: wanted[annotations]}
		a.put(r.Pod, "metadata", at, marked)
	} else {
		for _, section := range sections {
			a.mark(marked, section, at.field(section), wanted[section])
		}
	}
	if len(a.operations) > 0 {
		r.Pod = maps.Clone(r.Pod)
		r.Pod["metadata"] = marked
		r.Operations = append(r.Operations, a.operations...)
	}
	return nil
}

func hasKey(object map[string]any, key string) bool { _, ok := object[key]; return ok }

// made notes that Pillion makes the object in a field, which may be null or empty.
func (r *Result) made(path *podschema.Path, object map[string]any, name string) {
	was, had := object[name]
	r.Record.Set[path.String()] = record.Entry{Made: true, Was: was, Had: had}
}

func (a *run) put(object map[string]any, name string, at *location, v any) {
	op := patch.Add
	if hasKey(object, name) {
		op = patch.Replace
	}
	a.emit(op, at, v)
}

// mark gives a section of the metadata the wanted entries.
func (a *run) mark(metadata map[string]any, section string, at *location, wanted map[string]any) {
	have, _ := metadata[section].(map[string]any)
	if have == nil {
		a.put(metadata, section, at, wanted)
		metadata[section] = wanted
		return
	}
	entries := maps.Clone(have)
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if now, ok := have[key]; !ok || now != wanted[key] {
			a.put(have, key, at.field(key), wanted[key])
			entries[key] = wanted[key]
		}
	}
	metadata[section] = entries
}

func malformed(path string, got any) error {
	return &merge.PodError{Path: path, Err: fmt.Errorf("an object is expected, not %s", podschema.Show(got))}
}
