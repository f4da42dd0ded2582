package apply

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// annotate writes the record into the pod's annotation.
func (a *run) annotate(written, came record.Record, plan merge.Plan, key string) error {
	metadata, ok := a.pod["metadata"].(map[string]any)
	if !ok && a.pod["metadata"] != nil {
		return malformed(plan, "metadata", a.pod["metadata"])
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok && metadata["annotations"] != nil {
		return malformed(plan, "metadata.annotations", metadata["annotations"])
	}
	place := written.Root.Enter("metadata")
	if metadata == nil {
		madeAt(place, a.pod, "metadata")
	}
	place = place.Enter("annotations")
	if annotations == nil {
		madeAt(place, metadata, "annotations")
	}
	text := written.Encode()
	if len(text) > record.MaxBytes {
		e := &TooLargeError{Template: largest(plan), Bytes: len(text)}
		if !came.Empty() {
			e.Came = len(came.Encode())
		}
		return e
	}
	if annotations[key] == text {
		return nil
	}
	single := map[string]any{key: text}
	at := (*location)(nil).field("metadata")
	all, meta, notes := fields{now: a.pod}, fields{now: metadata}, fields{now: annotations}
	switch {
	case metadata == nil:
		a.put(&all, "metadata", at, map[string]any{"annotations": single})
		a.pod = all.now
		return nil
	case annotations == nil:
		a.put(&meta, "annotations", at.field("annotations"), single)
	default:
		a.put(&notes, key, at.field("annotations").field(key), text)
		meta.set("annotations", notes.now)
	}
	all.set("metadata", meta.now)
	a.pod = all.now
	return nil
}

// madeAt notes that Pillion makes the object in a field, which may be null.
func madeAt(place *record.Place, object map[string]any, name string) {
	place.Made = true
	if _, null := object[name]; null {
		place.Was = []any{nil}
	}
}

func malformed(plan merge.Plan, path string, got any) error {
	return &merge.PodError{Template: plan.Templates()[0], Path: path, Err: fmt.Errorf("an object is expected, not %s", podschema.Show(got))}
}

// largest names the template with the largest fragment.
func largest(plan merge.Plan) string {
	name, most := "", -1
	for _, f := range plan.Fragments {
		if size := len(podschema.Encode(f.Object)); size > most {
			name, most = f.Template, size
		}
	}
	return name
}
