package merge

import (
	"context"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Template has the settings of a template that the merge reads.
type Template struct {
	Name string
	// OnConflict is Deny, KeepPod or Overwrite; "" means Deny.
	OnConflict string
	// Overridable lets a pod's author declare a container of a sidecar's name. The author's fields then win.
	Overridable bool
	// KeepPodResources keeps the pod's own spec.resources.
	KeepPodResources bool
	// Required makes any other value of the pod a conflict, whatever OnConflict says. Only $patch and $unset
	// remove values.
	Required bool
}

// Effect is the effect of a template on one place.
type Effect string

const (
	// Added: the place had no value.
	Added Effect = "added"
	// Replaced: the place had another value.
	Replaced Effect = "replaced"
	// Appended: the template joined a text to the value.
	Appended Effect = "appended"
	// Removed: the template removed the value.
	Removed Effect = "removed"
	// Same: the place already had the template's value.
	Same Effect = "same"
	// Derived: the API server derives the value from another one.
	Derived Effect = "derived"
	// Created: an object or a list was created for other values.
	Created Effect = "made"
)

// Write is one template's write to one place.
type Write struct {
	Path   *podschema.Path
	Type   *podschema.Type
	Effect Effect
	// Value is the value after the write, nil for none.
	Value any
	// Was is the earlier value, if Had is set. It may be null.
	Was any
	Had bool
	// RemovedItems are the items of the key that were removed from the list.
	RemovedItems []RemovedItem
	// First is set for an item that is put first.
	First bool

	claim
}

// claim says how a template's value binds the templates that come later.
type claim struct {
	// whole is set for an object or a list that replaces all that could be in it.
	whole bool
	// required is set if a required template wrote the value.
	required bool
	// front is the number of bytes at the beginning of a text that templates prepended.
	front int
	// separator is that of the texts that required templates joined, "" for none.
	separator string
}

// RemovedItem is a removed item, with its index in the list of the base pod.
type RemovedItem struct {
	At   int
	Item any
}

// Result is the result of a merge.
type Result struct {
	// Pod is the merged pod. It shares unchanged parts with the original.
	Pod map[string]any
	// Writes are in the order of the merge: an object comes before its fields.
	Writes []Write
	// Conflicts are the places with another value of the pod or of another template. If there are any, the
	// caller must not use the pod, unless the template is required and the conflicts are reported.
	Conflicts []*Conflict
	PodValues []PodValue
	Warnings  []Warning
}

// State is a pod between two templates.
type State struct {
	// Base is the pod without any template, Pod the pod with the earlier ones.
	Base, Pod map[string]any
	// Writers are the writes of the earlier templates. Nil means none.
	Writers *Writers
}

// Merge merges the fragment of a template into a pod. It returns a [*FragmentError] if the template is at
// fault, a [*PodError] if the pod has no valid shape, or the error of a context that has ended.
func Merge(ctx context.Context, s State, f *fragment.Node, t Template) (Result, error) {
	pod, w := s.Pod, s.Writers
	m := &merger{ctx: ctx, base: s.Base, pod: pod, template: t}
	m.limited = limitRanged(pod)
	if err := m.checkFragment(f); err != nil {
		return Result{}, err
	}
	m.names = namesOf(pod, f)
	m.token = m.tokenVolume(f)
	policy := t.OnConflict
	if policy == "" {
		policy = directive.Deny
	}
	merged, err := m.object(podschema.Pod(), pod, f, place{writers: w.root(), policy: policy})
	if err == nil {
		m.result.Pod = merged
		m.derive()
		if t.Required {
			m.respectReplaced(w)
		}
		err = ctx.Err()
	}
	return m.result, err
}

// respectReplaced reports a conflict if a required template writes into an object or list that another one
// replaces as a whole. Merged once more, the other template would remove the value.
func (m *merger) respectReplaced(w *Writers) {
	for _, one := range m.result.Writes {
		if other := w.replaces(one.Path); other != "" && one.Effect != Same {
			m.disagree(place{path: one.Path}, other, nil, one.Value, hintReplaces)
			return
		}
	}
}

// merger merges one fragment into one pod.
type merger struct {
	ctx       context.Context
	base, pod map[string]any
	template  Template
	// names has the list of each container, by the container's name.
	names map[string]string
	// token is the volume of the service account's token for new containers, "" for none.
	token string
	// limited are the places whose values LimitRanger set.
	limited map[string]bool
	result  Result
}

// place is the current place of the merge, with the rules for it.
type place struct {
	path    *podschema.Path
	writers *writer
	// owner is the template that wrote the nearest item around the place, "" for none.
	owner string
	// policy is onConflict for the place. explicit is set if a node's $onConflict chose it, ordered if $patch
	// or $unset did.
	policy            string
	explicit, ordered bool
	// own is set inside a container of the pod's author, author inside one that overrides a sidecar.
	own, author bool
	// implied are the requests of the surrounding resources that equal their limits.
	implied map[string]bool
}

func (p place) in(t *podschema.Type, name string) place {
	return p.enter(p.path.In(t, name), name)
}

func (p place) field(name string) place { return p.enter(p.path.Field(name), name) }

func (p place) item(key string) place { return p.enter(p.path.Key(key), key) }

func (p place) enter(path *podschema.Path, segment string) place {
	if p.writers != nil && p.writers.wrote {
		p.owner = p.writers.by
	}
	p.path, p.writers = path, p.writers.child(segment)
	return p
}

// with returns the place under the $onConflict of a node.
func (p place) with(n *fragment.Node) place {
	if n != nil && n.Conflict != "" {
		p.policy, p.explicit = n.Conflict, true
	}
	return p
}

// ordering returns the place of a $patch or $unset, which overrules the pod unless a $onConflict forbids it.
func (p place) ordering() place {
	p.ordered = true
	if !p.explicit {
		p.policy, p.explicit = directive.Overwrite, true
	}
	return p
}

// wrote returns the template that wrote the value at the place, or else the nearest value around it, "" for none.
func (p place) wrote() string {
	if p.writers != nil && p.writers.wrote {
		return p.writers.by
	}
	return p.owner
}

func (m *merger) write(w Write) {
	w.required = m.template.Required
	m.result.Writes = append(m.result.Writes, w)
}

var specPath = (*podschema.Path)(nil).Field("spec")

// checkFragment refuses a fragment that cannot be merged into any pod.
func (m *merger) checkFragment(f *fragment.Node) error {
	spec := f.Field("spec")
	if alias, name := spec.Field("serviceAccount"), spec.Field("serviceAccountName"); alias != nil && name != nil && alias.Value != name.Value {
		return m.fault(specPath.Field("serviceAccount"), twoAccounts, podschema.Show(alias.Value), podschema.Show(name.Value))
	}
	for _, u := range f.Field("spec", "containers").List() {
		if v := f.Field("spec", "initContainers").Item(u.Key); v != nil && !u.IsSidecar() && !v.IsSidecar() {
			return m.fault(specPath.Field("initContainers").Key(u.Key), twoExtensions)
		}
	}
	return nil
}

// FragmentError reports that a fragment cannot be merged into any pod, or not into this one: the
// template is at fault.
type FragmentError struct {
	Template string
	Path     string // where in the fragment
	Err      error
}

func (e *FragmentError) Unwrap() error { return e.Err }

// PodError reports that the pod has a value of the wrong shape at a place that a template changes. The API
// server never sends such a pod.
type PodError struct {
	Template string
	Path     string
	Err      error
}

func (e *PodError) Unwrap() error { return e.Err }

func (m *merger) fault(at *podschema.Path, format string, args ...any) error {
	return &FragmentError{Template: m.template.Name, Path: at.Readable(), Err: fmt.Errorf(format, args...)}
}

func (m *merger) malformed(at place, want string, got any) error {
	return &PodError{Template: m.template.Name, Path: at.path.Readable(), Err: fmt.Errorf(wrongKind, podschema.Show(got), want)}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
