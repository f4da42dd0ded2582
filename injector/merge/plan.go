package merge

import (
	"context"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/memo"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// What happens where a template and the pod want different values.
const (
	// Deny refuses the pod with a [ConflictError].
	Deny = directive.Deny
	// KeepPod leaves the pod's value, with a warning.
	KeepPod = directive.KeepPod
	// Overwrite puts the template's value there.
	Overwrite = directive.Overwrite
	// keptByRule is KeepPod where neither the template nor a node of it says so, but the place
	// is one in which the pod's author wins.
	keptByRule = "keptByRule"
)

// Fragment is what one template renders to for one pod.
type Fragment struct {
	Template string // the template's name
	Hash     string // of the template
	// Object is the fragment: metadata.labels, metadata.annotations and spec,
	// with the directives $position, $patch, $unset, $append, $prepend and $onConflict. Nil or
	// empty does nothing.
	Object map[string]any
	// OnConflict is Deny, KeepPod or Overwrite; "" means Deny.
	OnConflict string
	// Overridable lets a pod's author declare a container of a sidecar's name,
	// whose fields then win (image "auto" means the template's).
	Overridable bool
	// KeepPodResources leaves the pod's own spec.resources alone, instead of adding to them
	// what the fragment's containers ask for.
	KeepPodResources bool
	// Memo knows the values in Object that never change. It may be nil.
	Memo memo.Tables
	// Required makes each value of the pod that stands where the template wants
	// another one a conflict, also a label, a variable or a mount. Its items with
	// $position: First stand before those of templates that are not required.
	Required bool

	// place is where the fragment stands among those given.
	place int
}

// shared knows the values that all pods with the same parameters share: those of the last of
// the fragment's stores.
func (f *Fragment) shared() memo.Tables { return f.Memo[max(0, len(f.Memo)-1):] }

// Sidecars returns the names of the fragment's containers with an image, in order.
func (f *Fragment) Sidecars() []string {
	var names []string
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := objectOf(f.Object["spec"])[list].([]any)
		for _, item := range items {
			if c := objectOf(item); c["image"] != nil {
				name, _ := c["name"].(string)
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Guarded reports whether the template is required and gives what is guarded in the running pod:
// containers with an image, or resources of the pod itself.
func (f *Fragment) Guarded() bool {
	return f.Required && (objectOf(f.Object["spec"])["resources"] != nil || len(f.Sidecars()) > 0)
}

// Plan is what the templates want of a pod.
type Plan struct {
	// Base is the pod that the plan is made for.
	Base map[string]any
	// Pod is the base pod with all that the templates want. It shares unchanged
	// parts with the base pod.
	Pod map[string]any
	// Root has the changes that lead from Base to Pod.
	Root *Change
	// Fragments are the fragments that the plan is made of, in the order given.
	Fragments []Fragment
	// Warnings are sentences for the team, each once.
	Warnings []string

	noted warnings
}

// Merge merges the fragments into the base pod: first those of templates that
// are not required, then those that are, each in the order given. Items at the end of
// a list stand in the order given, required or not. StatusKey is
// the full name of the annotation that no fragment may set. The error is a
// [*ConflictError], a [*ResourcesError], a [*FragmentError], a [*PodError], or that of the context, which
// has ended.
func Merge(ctx context.Context, base map[string]any, fragments []Fragment, statusKey string) (Plan, error) {
	fragments = slices.Clone(fragments)
	for i := range fragments {
		fragments[i].place = i
	}
	slices.SortStableFunc(fragments, func(a, b Fragment) int { return rank(a) - rank(b) })
	changes := &Change{}
	nodes, err := readAll(ctx, fragments, statusKey, changes)
	if err != nil {
		return Plan{}, err
	}
	m := newMerger(ctx, base, changes)
	m.fragments = fragments
	for i := range fragments {
		if err := ctx.Err(); err != nil {
			return Plan{}, err
		}
		if err := m.fragment(&fragments[i], &nodes[i]); err != nil {
			return Plan{}, err
		}
	}
	m.arrangeLists()
	if err := m.joinAll(); err != nil {
		return Plan{}, err
	}
	m.mountToken()
	m.keepDefaultTolerations()
	m.derived.followLimits()
	if err := m.settlePodResources(fragments); err != nil {
		return Plan{}, err
	}
	m.derived.expectLimitRange()
	if slices.ContainsFunc(nodes, func(n node) bool { return n.placed }) {
		m.warnOfPositions()
	}
	return Plan{Base: base, Pod: m.root.fields, Root: changes, Fragments: fragments, Warnings: m.warnings.sentences(), noted: *m.warnings}, nil
}

func rank(f Fragment) int {
	if f.Required {
		return 1
	}
	return 0
}

// Known is what is known about the values of the fragments that never change.
func (p Plan) Known() memo.Tables {
	var known memo.Tables
	for _, f := range p.Fragments {
		known = append(known, f.Memo...)
	}
	return known
}

// Templates returns the names of the templates that the plan gives something
// to the pod of, in the order of the fragments.
func (p Plan) Templates() []string {
	traced := map[string]bool{}
	p.Root.walk(func(c *Change) {
		if c.Do != Nothing {
			for _, name := range c.Templates {
				traced[name] = true
			}
		}
	})
	var names []string
	for _, f := range p.Fragments {
		if traced[f.Template] || f.Guarded() {
			names = append(names, f.Template)
		}
	}
	return names
}

// merger merges fragments into the wanted pod, one after the other.
type merger struct {
	judge
	ctx       context.Context
	root      *object // the pod as it is wanted so far
	changes   *Change
	names     containerNames
	derived   *derivation
	fragments []Fragment
	// joinings are the places at which fragments join texts.
	joinings []joining
}

func newMerger(ctx context.Context, base map[string]any, changes *Change) *merger {
	m := &merger{judge: judge{base: base, warnings: &warnings{}}, ctx: ctx, root: newObject(base), changes: changes, names: namesOf(base)}
	if base == nil {
		m.root.own()
	}
	m.derived = newDerivation(base, m.root, changes)
	return m
}

// startOf is where the merge of a fragment begins.
func startOf(f *Fragment, changes *Change) *place {
	policy := f.OnConflict
	if policy == "" {
		policy = Deny
	}
	return &place{node: changes, onConflict: policy}
}

func (m *merger) fragment(f *Fragment, n *node) error {
	m.frag, m.derived.template = f, f.Template
	if n.blank {
		return nil
	}
	at := startOf(f, m.changes)
	if _, ok := m.root.fields["spec"].(map[string]any); !ok && n.field("spec") != nil {
		return f.podFault(at.field("spec"), "an object", m.root.fields["spec"])
	}
	return m.mergeObject(podschema.Pod(), m.root, n, at)
}
