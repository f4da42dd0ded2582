package merge

import (
	"fmt"
	"maps"
	"slices"
)

// What happens where a template and the pod, or two templates, want different
// values.
const (
	// Deny refuses the pod with a [ConflictError].
	Deny = "Deny"
	// KeepPod leaves what stands, with a warning.
	KeepPod = "KeepPod"
	// Overwrite puts the template's value there and records the original.
	Overwrite = "Overwrite"
)

// Fragment is what one template renders to for one pod.
type Fragment struct {
	Template string // the template's name
	Hash     string // of the template
	Params   string // of the resolved parameters; "" if it has none
	// Object is the fragment: metadata.labels, metadata.annotations and spec,
	// with the directives $position, $patch, $unset and $onConflict. Nil or empty
	// does nothing.
	Object map[string]any
	// OnConflict is Deny, KeepPod or Overwrite; "" means Deny.
	OnConflict string
	// Overridable lets a pod's author declare a container of a sidecar's name,
	// whose fields then win (image "auto" means the template's).
	Overridable bool
}

// Options are settings of the installation.
type Options struct {
	// StatusKey is the full name of the status annotation, such as
	// pillion.dev/status.
	StatusKey string
}

// Result is an intended pod and the way there.
type Result struct {
	// Pod is the pod as it shall be, with its status annotation; no annotation
	// if nothing was ever added. It shares unchanged parts with the pod that
	// came in.
	Pod map[string]any
	// Edits lead from the pod that came in to Pod, one after the other.
	Edits []Edit
	// Warnings are sentences for the team: what the pod kept for itself.
	Warnings []string
	// Templates names, in their order, the given templates of which the pod
	// carries anything.
	Templates []string
}

// Edit is one step of a JSON patch.
type Edit struct {
	Op    string   // add, replace or remove
	Path  []string // unescaped; a list's index as decimal, "-" behind its last item
	Value any      // nil for remove
}

// Merge merges the fragments, in the given order, into the pod that carries
// status st. It adds what is absent, leaves what is equal, and treats the rest
// by the rules of the design's section 7; under the same hash and parameters,
// items that st lists are left as they are now. The error is a
// [*ConflictError], a [*FragmentError] or a [*PodError].
func Merge(pod map[string]any, st Status, frags []Fragment, o Options) (Result, error) {
	m := newMerger(pod, st, o)
	// All are read before any is merged: an item may stand before or after one of
	// a later template.
	for i := range frags {
		if err := m.check(&frags[i]); err != nil {
			return Result{}, err
		}
	}
	for i := range frags {
		if err := m.template(&frags[i]); err != nil {
			return Result{}, err
		}
	}
	m.settlePodRequests(pod)
	m.warnOfAbsentAnchors()
	if err := m.writeStatus(); err != nil {
		return Result{}, err
	}
	return Result{Pod: m.root.fields, Edits: m.edits, Warnings: m.sentences(), Templates: m.traces(frags)}, nil
}

// merger is one run of [Merge].
type merger struct {
	*shapes
	options Options
	root    *object
	edits   []Edit

	records     map[string]*record               // by template
	carried     map[string]Applied               // as the pod came
	owners      map[string]string                // listed path: a template that lists it
	originals   map[string]any                   // recorded originals, by path
	made        map[string]bool                  // paths that are recorded as created
	merged      map[string]bool                  // the templates so far
	removed     map[string][]takenOut            // by a list's path: what the pod came without, templates in order
	removedKeys map[string]map[string][]takenOut // the same by key, too, for the lists that were asked for
	undo        *undo                            // what the records say, at every moment
	claims      map[string]claim                 // path: the value that a template of this run wants
	below       map[string][]string              // path: those directly below it that have a claim or surround one
	around      map[string]bool                  // the paths that below has
	chosen      map[string]bool                  // union fields that a template of this run wants
	names       map[string]bool                  // paths of containers
	limited     map[string]bool                  // paths of resources that LimitRanger set, or defaulting from others
	orders      map[string]*order                // by a list's path: where items want to stand
	warnings    []warning

	// The template that is being merged.
	frag   *Fragment
	record *record
	same   bool            // the pod carries the same hash and parameters
	stakes map[string]bool // every path that it lists or made, and what surrounds them, as the pod came
}

func newMerger(pod map[string]any, st Status, o Options) *merger {
	m := &merger{
		shapes: known(), options: o, root: newObject(pod),
		records: map[string]*record{}, carried: map[string]Applied{}, owners: map[string]string{},
		removed: map[string][]takenOut{}, removedKeys: map[string]map[string][]takenOut{}, undo: &undo{}, below: map[string][]string{}, around: map[string]bool{},
		originals: map[string]any{}, made: map[string]bool{}, merged: map[string]bool{}, claims: map[string]claim{}, names: map[string]bool{}, chosen: map[string]bool{},
		orders: map[string]*order{},
	}
	if m.root.fields == nil {
		m.root.fields = map[string]any{}
	}
	for _, a := range st.Templates {
		r := a.record()
		m.carried[a.Name], m.records[a.Name] = a, r
		m.undo.add(r.applied())
		for path := range r.items {
			m.own(path, a.Name)
		}
		for path, v := range r.overwrote {
			m.originals[path] = v
			if !r.created[path] {
				m.own(path, a.Name)
			}
		}
		for path := range r.created {
			m.made[path] = true
		}
		for path, removed := range a.Removed {
			for _, taken := range removed {
				m.removed[path] = append(m.removed[path], takenOut{template: a.Name, Removed: taken})
			}
		}
	}
	m.indexNames()
	m.limited = limitRanged(pod)
	return m
}

// own notes that template lists path. Of several, the first in name order is
// named in errors, whatever order they are read in.
func (m *merger) own(path, template string) {
	if have, ok := m.owners[path]; !ok || template < have {
		m.owners[path] = template
	}
}

// start is where the merge of a fragment begins.
func (f *Fragment) start() place {
	if f.OnConflict == "" {
		return place{onConflict: Deny}
	}
	return place{onConflict: f.OnConflict}
}

func (m *merger) check(f *Fragment) error {
	m.frag = f
	return m.checkFragment(f, f.start())
}

func (m *merger) template(f *Fragment) error {
	m.frag = f
	start := f.start()
	m.record = m.records[f.Template]
	if m.record == nil {
		m.record = newRecord(f.Template)
		m.records[f.Template] = m.record
	}
	carried, ok := m.carried[f.Template]
	m.same = ok && carried.Hash == f.Hash && carried.Params == f.Params
	m.record.signs = !m.same || carried.Wrote != ""
	if !m.same {
		clear(m.record.wrote)
	}
	if m.blank(m.pod, f.Object) {
		return nil
	}
	m.stakes = m.record.stakes()
	if _, ok := m.root.fields["spec"].(map[string]any); !ok && f.Object["spec"] != nil {
		return m.podError(start.field("spec"), "an object", m.root.fields["spec"])
	}
	m.record.hash, m.record.params = f.Hash, f.Params
	return m.mergeObject(m.pod, m.root, f.Object, start)
}

// traces returns the given templates that the pod carries something of.
func (m *merger) traces(frags []Fragment) []string {
	var names []string
	for _, f := range frags {
		if r := m.records[f.Template]; r.trace() {
			names = append(names, f.Template)
		}
	}
	return names
}

// writeStatus records what was done in the pod's annotation.
func (m *merger) writeStatus() error {
	var traced []*record
	found := indexes{}
	for _, name := range slices.Sorted(maps.Keys(m.records)) {
		r := m.records[name]
		leaveOutNowhere(m.root.fields, found, r.overwrote, r.removed)
		if r.trace() {
			traced = append(traced, r)
		}
	}
	if len(traced) == 0 {
		return nil
	}
	// The annotation may be the first: then the first template made the map.
	metadata, annotations, err := m.annotations(traced[0])
	if err != nil {
		return err
	}
	s := Status{}
	for _, r := range traced {
		s.Templates = append(s.Templates, r.applied())
	}
	text := encodeStatus(s)
	if len(text) > MaxStatusBytes {
		return &FragmentError{Template: largest(s), Err: fmt.Errorf("%w: %d bytes, %d allowed", ErrStatusTooLarge, len(text), MaxStatusBytes)}
	}
	m.putStatus(metadata, annotations, text)
	return nil
}

// annotations returns the pod's metadata and annotations, nil where there are
// none, and records in r that they will have been made.
func (m *merger) annotations(r *record) (metadata, annotations *object, err error) {
	m.frag, m.record = &Fragment{Template: r.name}, r
	at := place{}.field("metadata")
	if m.root.fields["metadata"] == nil {
		m.noteNull(at.keyed, m.root, "metadata")
		m.create(at.keyed)
		m.create(at.field("annotations").keyed)
		return nil, nil, nil
	}
	metadata, ok := m.root.object("metadata")
	if !ok {
		return nil, nil, m.podError(at, "an object", m.root.fields["metadata"])
	}
	at = at.field("annotations")
	if metadata.fields["annotations"] == nil {
		m.noteNull(at.keyed, metadata, "annotations")
		m.create(at.keyed)
		return metadata, nil, nil
	}
	annotations, ok = metadata.object("annotations")
	if !ok {
		return nil, nil, m.podError(at, "an object", metadata.fields["annotations"])
	}
	return metadata, annotations, nil
}

func (m *merger) putStatus(metadata, annotations *object, text string) {
	key, at := m.options.StatusKey, place{}.field("metadata")
	single := map[string]any{key: text}
	switch {
	case metadata == nil:
		m.set(m.root, "metadata", at, map[string]any{"annotations": single})
	case annotations == nil:
		m.set(metadata, "annotations", at.field("annotations"), single)
	case annotations.fields[key] != text:
		m.set(annotations, key, at.field("annotations").field(key), text)
	}
}

// largest names the template that takes the most of a status.
func largest(s Status) string {
	name, most := "", -1
	for _, a := range s.Templates {
		if size := len(encode(a)); size > most {
			name, most = a.Name, size
		}
	}
	return name
}
