package apply

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// annotate writes the record into the pod's annotation, and the labels beside it. Templates are
// those that the plan gives something to the pod of.
func (a *run) annotate(written, prior record.Record, plan merge.Plan, templates []string, key string) error {
	metadata, ok := a.pod["metadata"].(map[string]any)
	if !ok && a.pod["metadata"] != nil {
		return malformed(plan, "metadata", a.pod["metadata"])
	}
	if metadata == nil {
		madeAt(written.Root.Enter("metadata"), a.pod, "metadata")
	}
	base, _ := plan.Base["metadata"].(map[string]any)
	for _, section := range sections {
		if _, ok := metadata[section].(map[string]any); !ok && metadata[section] != nil {
			return malformed(plan, "metadata."+section, metadata[section])
		}
		// The base pod decides: what the pod has may be Pillion's own of an earlier call.
		if entries, _ := base[section].(map[string]any); len(entries) == 0 {
			madeAt(written.Root.Enter("metadata").Enter(section), base, section)
		}
	}
	text := written.Encode()
	if len(text) > record.MaxBytes {
		e := &TooLargeError{Template: largest(plan), Bytes: len(text)}
		if !prior.Empty() {
			e.Prior = len(prior.Encode())
		}
		return e
	}
	wanted := map[string]map[string]any{labels: written.Labels(templates), annotations: {key: text}}
	at, all := (*location)(nil).field("metadata"), fields{now: a.pod}
	if metadata == nil {
		a.put(&all, "metadata", at, map[string]any{labels: wanted[labels], annotations: wanted[annotations]})
		a.pod = all.now
		return nil
	}
	meta := fields{now: metadata}
	for _, section := range sections {
		a.mark(&meta, section, at.field(section), wanted[section])
	}
	all.set("metadata", meta.now)
	a.pod = all.now
	return nil
}

// The sections of the metadata that Pillion marks a pod in, in the order of its operations.
const labels, annotations = "labels", "annotations"

var sections = []string{labels, annotations}

// mark gives a section of the metadata the wanted entries.
func (a *run) mark(meta *fields, section string, at *location, wanted map[string]any) {
	have, _ := meta.now[section].(map[string]any)
	if have == nil {
		a.put(meta, section, at, wanted)
		return
	}
	entries := fields{now: have}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if now, ok := have[key]; !ok || now != wanted[key] {
			a.put(&entries, key, at.field(key), wanted[key])
		}
	}
	meta.set(section, entries.now)
}

// madeAt notes that Pillion makes the object in a field, which may be null or empty.
func madeAt(place *record.Place, object map[string]any, name string) {
	place.Made = true
	if was, there := object[name]; there {
		place.Was = []any{was}
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
