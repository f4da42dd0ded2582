package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Template is what the merge needs to know of a template.
type Template struct {
	Name string
	// OnConflict is Deny, KeepPod or Overwrite; "" means Deny.
	OnConflict string
	// Overridable lets a pod's author declare a container of a sidecar's name, whose fields win.
	Overridable bool
	// KeepPodResources leaves the pod's own spec.resources alone.
	KeepPodResources bool
	// Required makes every other value of the pod a conflict, whatever OnConflict says. Only $patch and
	// $unset take away.
	Required bool
}

// Effect is what a template does in one place.
type Effect string

const (
	// Added: nothing stood there.
	Added Effect = "added"
	// Replaced: another value stood there.
	Replaced Effect = "replaced"
	// Appended: a text is joined to the one that stood there.
	Appended Effect = "appended"
	// Removed: what stood there goes.
	Removed Effect = "removed"
	// Same: what the template wants stands there already.
	Same Effect = "same"
	// Derived: the API server writes the value, because of another one.
	Derived Effect = "derived"
	// Made: an object or a list is made to hold other values.
	Made Effect = "made"
)

// Write is what a template does in one place.
type Write struct {
	Path   *podschema.Path
	Type   *podschema.Type
	Effect Effect
	// Value is what stands there now, nil for nothing.
	Value any
	// Was is what stood there, if Had is set. It may be null.
	Was any
	Had bool
	// Gone are the items of the key that were taken out of the list.
	Gone []Gone
	// First is set for an item that is put first.
	First bool

	front     int
	separator string
	whole     bool
	// required is set for a write of a required template.
	required bool
}

// Gone is an item that was taken out, and its index in the list of the base pod.
type Gone struct {
	At   int
	Item any
}

// Result is what a merge gives.
type Result struct {
	// Pod is the merged pod. It shares with the pod that came in what did not change.
	Pod map[string]any
	// Writes are in the order in which they were made: what is around a place comes before it.
	Writes []Write
	// Conflicts are the places where somebody else has another value. If there are any, the pod must not be
	// used, unless the template is required and the conflicts are told.
	Conflicts []*Conflict
	Kept      []Kept
	Warnings  []Warning
}

// Merge puts the fragment of a template into a pod. Base is the pod without any template. The
// error is a [*FragmentError] (the template is at fault), a [*PodError] (the pod has no valid
// shape), or that of the context, which has ended.
func Merge(ctx context.Context, base, pod map[string]any, f *fragment.Node, w *Writers, t Template) (Result, error) {
	m := &merger{ctx: ctx, base: base, pod: pod, template: t}
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

// respectReplaced reports a conflict for what a required template writes into an object or list that
// another one replaces: merged into the pod that has both, that one would take it out again.
func (m *merger) respectReplaced(w *Writers) {
	for _, one := range m.result.Writes {
		if other := w.replaces(one.Path); other != "" && one.Effect != Same {
			m.disagree(place{path: one.Path}, other, nil, one.Value, "that template replaces the whole of it")
			return
		}
	}
}

// merger merges one fragment into one pod.
type merger struct {
	ctx       context.Context
	base, pod map[string]any
	template  Template
	// names has, by a container's name, the list that it stands in.
	names map[string]string
	// token is the volume of the service account's token for new containers, "" for none.
	token string
	// limited are the places whose values LimitRanger set.
	limited map[string]bool
	result  Result
}

// place is where the merge stands, and the rules that hold there.
type place struct {
	path    *podschema.Path
	writers *writer
	// owner is the template whose item surrounds the place, "" for none.
	owner string
	// policy is what a conflict with the pod does; explicit is set if a node says so, and not the
	// template; ordered if $patch or $unset says so.
	policy            string
	explicit, ordered bool
	// own is set inside a container of the pod's author, author inside one that may override a sidecar.
	own, author bool
	// implied are the requests of the resources around that say what their limits say.
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

// ordering returns the place of a $patch or $unset, which overrules the pod unless a $onConflict says
// otherwise.
func (p place) ordering() place {
	p.ordered = true
	if !p.explicit {
		p.policy, p.explicit = directive.Overwrite, true
	}
	return p
}

// wrote returns the template that put there what stands at the place, or around it.
func (p place) wrote() string {
	if p.owner == "" && p.writers != nil && p.writers.wrote {
		return p.writers.by
	}
	return p.owner
}

func (m *merger) write(w Write) {
	w.required = m.template.Required
	m.result.Writes = append(m.result.Writes, w)
}

var specPath = (*podschema.Path)(nil).Field("spec")

// checkFragment refuses what cannot be merged into any pod.
func (m *merger) checkFragment(f *fragment.Node) error {
	spec := f.Field("spec")
	if alias, name := spec.Field("serviceAccount"), spec.Field("serviceAccountName"); alias != nil && name != nil && alias.Value != name.Value {
		return m.fault(specPath.Field("serviceAccount"), "it is the old name of serviceAccountName, and %s is not %s", podschema.Show(alias.Value), podschema.Show(name.Value))
	}
	for _, u := range f.Field("spec", "containers").List() {
		if v := f.Field("spec", "initContainers").Item(u.Key); v != nil && !u.IsSidecar() && !v.IsSidecar() {
			return m.fault(specPath.Field("initContainers").Key(u.Key), "it has no image, and containers has such an item, too; write one: it extends the container of its name in either list")
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

func (e *FragmentError) Error() string {
	return fmt.Sprintf("merging template %s: at %s: %v", e.Template, e.Path, e.Err)
}

// Unwrap returns what was wrong.
func (e *FragmentError) Unwrap() error { return e.Err }

// PodError reports that the pod holds something other than what the API allows at a place that a
// template wants to change. The API server never sends one.
type PodError struct {
	Template string
	Path     string
	Err      error
}

func (e *PodError) Error() string {
	return fmt.Sprintf("merging template %s: the pod is malformed at %s: %v", e.Template, e.Path, e.Err)
}

// Unwrap returns what was wrong.
func (e *PodError) Unwrap() error { return e.Err }

// ErrNothingToExtend is the error inside a [FragmentError] when a template extends a container that
// the pod does not have.
var ErrNothingToExtend = errors.New("it has no image, so it extends the pod's container of that name, and the pod has none, neither among its containers nor among its initContainers")

func (m *merger) fault(at *podschema.Path, format string, args ...any) error {
	return &FragmentError{Template: m.template.Name, Path: at.Readable(), Err: fmt.Errorf(format, args...)}
}

func (m *merger) malformed(at place, want string, got any) error {
	return &PodError{Template: m.template.Name, Path: at.path.Readable(), Err: fmt.Errorf("%s is expected, not %s", want, podschema.Show(got))}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
