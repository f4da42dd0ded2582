package templates

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Entry is one template of a [Set].
type Entry struct {
	Name string
	// Namespace is that of a NamespacedSidecarTemplate, empty for a template of the cluster.
	Namespace string
	// Template is the last good version, or nil if none is known.
	Template *Template
	// Previous is the good version before Template, nil for none. It counts for the verification of pods for
	// [EditGrace] after Since, when Template came into force.
	Previous *Template
	Since    time.Time
	// Err is the reason why the newest manifest cannot be used, or nil.
	Err error
}

// EditGrace is the time for which the previous version still counts after an edit. It is longer than a pod's
// creation takes.
const EditGrace = time.Minute

// Before returns the earlier version that still counts at a time, nil for none.
func (e Entry) Before(now time.Time) *Template {
	if e.Previous == nil || now.Sub(e.Since) > EditGrace {
		return nil
	}
	return e.Previous
}

// Known returns the last good version, or else [CompileError.Broken]. It returns nil if nothing is known of the
// template.
func (e Entry) Known() *Template {
	if e.Template != nil {
		return e.Template
	}
	var mistakes *CompileError
	if errors.As(e.Err, &mistakes) && mistakes.Template == e.Name {
		return mistakes.Broken
	}
	return nil
}

// Required reports whether the template is known to be required.
func (e Entry) Required() bool {
	t := e.Known()
	return t != nil && t.spec.Required
}

// InjectByDefault reports whether the template is known to be one that "true" requests.
func (e Entry) InjectByDefault() bool {
	t := e.Known()
	return t != nil && t.spec.InjectByDefault
}

// Suspended reports whether the template is known to be suspended.
func (e Entry) Suspended() bool {
	t := e.Known()
	return t != nil && t.spec.Suspend
}

// Match returns the selectors of the pods that get the template without a request. It reports false if the
// template has no match, or the match is unknown.
func (e Entry) Match() (namespace, pod labels.Selector, ok bool) {
	if t := e.Known(); t != nil {
		return t.Match()
	}
	return nil, nil, false
}

// AvailableTo reports whether a namespace with these labels may have the template. It reports true if nothing
// is known of the template.
func (e Entry) AvailableTo(namespaceLabels map[string]string) bool {
	t := e.Known()
	return t == nil || t.AvailableTo(namespaceLabels)
}

// Set is a snapshot of all templates. It is immutable. Its entries lack canaries, because pods cannot request
// them.
type Set struct {
	// entries are by order, then name. Those without a good version come last.
	entries []Entry
	// canaries are by name.
	canaries []Canary
	// own returns the templates of a namespace.
	own func(namespace string) []Entry
	// namespaced are the templates of namespaces passed to [NewSet], by namespace, then name.
	namespaced []Entry
}

// NewSet returns the set of the given entries. Of several entries with one name and namespace the last counts.
func NewSet(entries []Entry) *Set {
	cluster, namespaced := map[string]Entry{}, map[string][]Entry{}
	for _, e := range entries {
		if e.Namespace == "" {
			cluster[e.Name] = e
		} else {
			others := slices.DeleteFunc(namespaced[e.Namespace], func(other Entry) bool { return other.Name == e.Name })
			namespaced[e.Namespace] = append(others, e)
		}
	}
	s := &Set{own: func(namespace string) []Entry { return namespaced[namespace] }, namespaced: slices.Concat(slices.Collect(maps.Values(namespaced))...)}
	slices.SortFunc(s.namespaced, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var canaries []Entry
	for _, e := range cluster {
		if _, ok := e.ofCanary(); ok {
			canaries = append(canaries, e)
		} else {
			s.entries = append(s.entries, e)
		}
	}
	slices.SortFunc(s.entries, compareEntries)
	slices.SortFunc(canaries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range canaries {
		of, _ := e.ofCanary()
		stable, found := s.Get(of)
		s.canaries = append(s.canaries, canaryOf(e, of, stable, found))
	}
	return s
}

func compareEntries(a, b Entry) int {
	if (a.Template == nil) != (b.Template == nil) {
		if a.Template == nil {
			return 1
		}
		return -1
	}
	if a.Template == nil {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Or(cmp.Compare(a.Template.Order(), b.Template.Order()), cmp.Compare(a.Name, b.Name))
}

// WithNamespaces returns the set with other templates of namespaces, which a function returns for one namespace.
// The function may be called by any number of goroutines.
func (s *Set) WithNamespaces(own func(namespace string) []Entry) *Set {
	return &Set{entries: s.entries, canaries: s.canaries, own: own}
}

// In returns the set that is in force for the pods of a namespace: the templates of the cluster and the
// namespace's own, in one order. A template of the cluster hides one of the namespace with its name.
func (s *Set) In(namespace string) *Set {
	own := slices.DeleteFunc(slices.Clone(s.own(namespace)), func(e Entry) bool { _, shadowed := s.Find(e.Name); return shadowed })
	if len(own) == 0 {
		return s
	}
	all := slices.Concat(s.entries, own)
	slices.SortStableFunc(all, compareEntries)
	return &Set{entries: all, canaries: s.canaries, own: func(string) []Entry { return nil }}
}

// Namespaced returns the templates of namespaces passed to [NewSet], by namespace, then name.
func (s *Set) Namespaced() []Entry { return s.namespaced }

// Entries returns the entries in the order in which templates are injected: by order, then name, and those
// without a good version last. The caller must not change the slice.
func (s *Set) Entries() []Entry { return s.entries }

// All returns the entries, and the canaries behind them. The caller may change the slice.
func (s *Set) All() []Entry {
	all := slices.Clone(s.entries)
	for _, c := range s.canaries {
		all = append(all, c.Entry)
	}
	return all
}

// Required returns the required entries, in order.
func (s *Set) Required() []Entry {
	var required []Entry
	for _, e := range s.entries {
		if e.Required() {
			required = append(required, e)
		}
	}
	return required
}

// Get returns the entry of a name. It reports false if there is none, and for a canary: see [Set.Canary].
func (s *Set) Get(name string) (Entry, bool) {
	i := slices.IndexFunc(s.entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return s.entries[i], true
}

// Find returns the entry of a name, also of a canary.
func (s *Set) Find(name string) (Entry, bool) {
	if c, ok := s.Canary(name); ok {
		return c.Entry, true
	}
	return s.Get(name)
}

// VerifiedIn reports whether final pods of a namespace are verified, because a required template selects it.
// The selector of a template without a good version counts if it is known, since the template's pods are
// refused. A suspended template verifies nothing.
//
// The API server has yet to name a namespace without a name, from its generateName. A selector then matches
// whatever it requires of the label kubernetes.io/metadata.name.
func (s *Set) VerifiedIn(namespace Namespace) bool {
	return slices.ContainsFunc(s.entries, func(e Entry) bool { return e.Required() && e.mayMatchIn(namespace) })
}

// MatchedIn reports whether a template's match selects the namespace, for any labels of its pods. It ignores
// suspended and required templates: see [Set.VerifiedIn], also for namespaces without a name.
func (s *Set) MatchedIn(namespace Namespace) bool {
	return slices.ContainsFunc(s.entries, func(e Entry) bool { return !e.Required() && e.mayMatchIn(namespace) })
}

// mayMatchIn reports whether the template may match pods of a namespace, whose name may not be known yet.
func (e Entry) mayMatchIn(namespace Namespace) bool {
	selector, _, ok := e.Match()
	if !ok || e.Suspended() {
		return false
	}
	if namespace.Name != "" {
		return selector.Matches(labels.Set(namespace.Labels))
	}
	requirements, selectable := selector.Requirements()
	for _, r := range requirements {
		if r.Key() != corev1.LabelMetadataName && !r.Matches(labels.Set(namespace.Labels)) {
			return false
		}
	}
	return selectable
}
