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

// TooLargeError reports that the new record would exceed [record.MaxBytes].
type TooLargeError struct {
	// Bytes is the size of the new record, Prior the size of the record that the pod came with, 0 for none.
	Bytes, Prior int
}

func (e *TooLargeError) Error() string {
	prior := ""
	if e.Prior > 0 {
		prior = fmt.Sprintf("; the pod came with a record of %d bytes: if it is another pod's, remove the annotation from the pod", e.Prior)
	}
	return fmt.Sprintf("the record of what was injected would have %d bytes, %d are allowed%s", e.Bytes, record.MaxBytes, prior)
}

// The sections of the metadata that Pillion writes, in the order of its operations.
const labels, annotations = "labels", "annotations"

var sections = []string{labels, annotations}

// Mark writes the record into the pod's annotation, and sets the labels of the templates. Base is the pod
// without any template. Mark returns a [*TooLargeError], or a [*merge.PodError] if the metadata is not an
// object.
func (r *Result) Mark(base map[string]any, templates []string) error {
	metadata, ok := r.Pod["metadata"].(map[string]any)
	if !ok && r.Pod["metadata"] != nil {
		return malformed("metadata", r.Pod["metadata"])
	}
	before, _ := base["metadata"].(map[string]any)
	if len(before) == 0 {
		r.recordCreated((*podschema.Path)(nil).Field("metadata"), base, "metadata")
	}
	for _, section := range sections {
		if _, ok := metadata[section].(map[string]any); !ok && metadata[section] != nil {
			return malformed("metadata."+section, metadata[section])
		}
		// The base pod decides, because the metadata of the pod may come from an earlier call of Pillion.
		if entries, _ := before[section].(map[string]any); len(entries) == 0 && hasKey(before, section) {
			r.recordCreated((*podschema.Path)(nil).Field("metadata").Field(section), before, section)
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
		a.emitSet(r.Pod, "metadata", at, marked)
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

// recordCreated records that Pillion creates the object in a field, which may be null or empty.
func (r *Result) recordCreated(path *podschema.Path, object map[string]any, name string) {
	was, had := object[name]
	r.Record.Set[path.String()] = record.Entry{Created: true, Was: was, Had: had}
}

func (a *run) emitSet(object map[string]any, name string, at *location, v any) {
	op := patch.Add
	if hasKey(object, name) {
		op = patch.Replace
	}
	a.emit(op, at, v)
}

// mark sets the wanted entries of a section of the metadata.
func (a *run) mark(metadata map[string]any, section string, at *location, wanted map[string]any) {
	have, _ := metadata[section].(map[string]any)
	if have == nil {
		a.emitSet(metadata, section, at, wanted)
		metadata[section] = wanted
		return
	}
	entries := maps.Clone(have)
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if now, ok := have[key]; !ok || now != wanted[key] {
			a.emitSet(have, key, at.field(key), wanted[key])
			entries[key] = wanted[key]
		}
	}
	metadata[section] = entries
}

func malformed(path string, got any) error {
	return &merge.PodError{Path: path, Err: fmt.Errorf("it is %s; an object is expected", podschema.Show(got))}
}
