package templates

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Entry is one template of a [Set].
type Entry struct {
	Name string
	// Namespace is that of a NamespacedSidecarTemplate, empty for a template of the cluster.
	Namespace string
	// Source is the file or object that the name belongs to, as in
	// [Options.Source]. Empty if it is not known.
	Source string
	// Template is the last good version, or nil if none is known.
	Template *Template
	// Previous is the good version before Template, nil for none. It counts for the verification of pods for
	// [Beside] after Since, when Template came into force.
	Previous *Template
	Since    time.Time
	// Err is why the newest manifest cannot be used, or nil.
	Err error
}

// Beside is how long a version counts beside the one that took its place: longer than a pod is being
// created.
const Beside = time.Minute

// Before returns the version that still counts beside Template at a time, nil for none.
func (e Entry) Before(now time.Time) *Template {
	if e.Previous == nil || now.Sub(e.Since) > Beside {
		return nil
	}
	return e.Previous
}

// Known returns the template as far as it is known: the last good version, or
// [CompileError.Broken]. It is nil if nothing is known.
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

// Required reports whether the template is required, as far as that is known.
func (e Entry) Required() bool {
	t := e.Known()
	return t != nil && t.spec.Required
}

// InjectByDefault reports whether "true" asks for the template, as far as that is known.
func (e Entry) InjectByDefault() bool {
	t := e.Known()
	return t != nil && t.spec.InjectByDefault
}

// Suspended reports whether the template is injected nowhere, as far as that is known.
func (e Entry) Suspended() bool {
	t := e.Known()
	return t != nil && t.spec.Suspend
}

// Match returns the selectors of the pods that get the template without asking, as far as
// they are known. ok is false if there are none.
func (e Entry) Match() (namespace, pod labels.Selector, ok bool) {
	if t := e.Known(); t != nil {
		return t.Match()
	}
	return nil, nil, false
}

// AvailableTo reports whether a namespace with these labels may have the template, as far as
// that is known.
func (e Entry) AvailableTo(namespaceLabels map[string]string) bool {
	t := e.Known()
	return t == nil || t.AvailableTo(namespaceLabels)
}

// Set is a snapshot of all templates. It is immutable. The place of an entry is its index
// in the order of [Set.All]. Canaries have no place: pods cannot ask for them. The templates of
// namespaces are no entries of it: [Set.In] returns the set that counts for the pods of one namespace.
type Set struct {
	entries []Entry
	byName  map[string]int
	// canaries are by name, byStable has them by the name of the stable template.
	canaries []Canary
	byStable map[string][]Canary
	// defaults and required are the places of entries of these kinds, in order.
	defaults, required []int
	// matching finds the entries with a match that are not required. Those that are see
	// other labels of the pod.
	matching, requiredMatching index
	// selecting finds all entries with a match by the namespaces that they select, whatever the
	// pods are.
	selecting index
	reads     *NamespaceReads
	// origin is the set that this one is a copy of, with other namespaces.
	origin *Set
	// namespaces have templates of their own. own are those of the namespace that the set is
	// for; their places follow those of the entries.
	namespaces map[string]*NamespaceTemplates
	reading    *reading
	own        *Set
}

// NewSet returns the set of the given entries. Of several with one name and namespace the last
// counts.
func NewSet(entries []Entry) *Set {
	var cluster []Entry
	namespaced := map[string][]Entry{}
	for _, e := range entries {
		if e.Namespace == "" {
			cluster = append(cluster, e)
		} else {
			namespaced[e.Namespace] = append(namespaced[e.Namespace], e)
		}
	}
	s := newSet(cluster)
	if len(namespaced) == 0 {
		return s
	}
	all := map[string]*NamespaceTemplates{}
	for namespace, own := range namespaced {
		all[namespace] = NewNamespaceTemplates(own)
	}
	return s.WithNamespaces(all)
}

// newSet returns a set in which all entries are for every namespace.
func newSet(entries []Entry) *Set {
	last := map[string]Entry{}
	for _, e := range entries {
		last[e.Name] = e
	}
	s := &Set{byName: make(map[string]int, len(last))}
	s.origin = s
	var canaries []Entry
	for _, e := range last {
		if _, ok := e.ofCanary(); ok {
			canaries = append(canaries, e)
		} else {
			s.entries = append(s.entries, e)
		}
	}
	slices.SortFunc(s.entries, compareEntries)
	slices.SortFunc(canaries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	s.file()
	s.pair(canaries)
	return s
}

// file notes how each entry is found.
func (s *Set) file() {
	matching, required, selecting := map[int]selected{}, map[int]selected{}, map[int]selected{}
	s.reads = newNamespaceReads()
	for place, e := range s.entries {
		s.byName[e.Name] = place
		s.reads.add(e)
		if e.InjectByDefault() {
			s.defaults = append(s.defaults, place)
		}
		if e.Required() {
			s.required = append(s.required, place)
		}
		namespace, pod, ok := e.Match()
		if !ok {
			continue
		}
		selecting[place] = selected{namespace, labels.Everything()}
		if e.Required() {
			required[place] = selected{namespace, pod}
		} else {
			matching[place] = selected{namespace, pod}
		}
	}
	s.matching, s.requiredMatching, s.selecting = newIndex(matching), newIndex(required), newIndex(selecting)
}

func compareEntries(a, b Entry) int {
	if a.Template == nil || b.Template == nil {
		if (a.Template == nil) != (b.Template == nil) {
			if a.Template == nil {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Or(cmp.Compare(a.Template.Order(), b.Template.Order()), cmp.Compare(a.Name, b.Name))
}

// Get returns the entry of a name, and whether there is one. Canaries are not among them:
// [Set.Canary] returns those.
func (s *Set) Get(name string) (Entry, bool) {
	place, ok := s.Place(name)
	if !ok {
		return Entry{}, false
	}
	return s.At(place), true
}

// Find returns the entry of a name, a canary or not.
func (s *Set) Find(name string) (Entry, bool) {
	if c, ok := s.Canary(name); ok {
		return c.Entry, true
	}
	return s.Get(name)
}

// Has reports whether the set has each template in the version of the hash, as a canary or not.
func (s *Set) Has(hashes map[string]string) bool {
	for name, hash := range hashes {
		e, _ := s.Get(name)
		isCanary := func(c Canary) bool { return c.InForce() && c.Version.Hash() == hash }
		if (e.Template == nil || e.Template.Hash() != hash) && !slices.ContainsFunc(s.byStable[name], isCanary) {
			return false
		}
	}
	return true
}

// SameRequired reports whether the required templates of two sets are the same, with their
// canaries. Ones without a good version are not.
func (s *Set) SameRequired(other *Set) bool {
	return slices.EqualFunc(s.required, other.required, func(a, b int) bool {
		one, two := s.entries[a], other.entries[b]
		return one.Template != nil && one.Template == two.Template && slices.EqualFunc(s.byStable[one.Name], other.byStable[two.Name], sameCanary)
	})
}

func sameCanary(a, b Canary) bool { return a.Template == b.Template && a.InForce() == b.InForce() }

// All returns the entries by order, then name; those without a template come
// after them, by name, and canaries last. The caller may change the slice.
func (s *Set) All() []Entry {
	all := slices.Clone(s.entries)
	if s.own != nil {
		all = append(all, s.own.entries...)
	}
	for _, c := range s.canaries {
		all = append(all, c.Entry)
	}
	return all
}

// Len returns how many entries there are, without canaries.
func (s *Set) Len() int {
	if s.own == nil {
		return len(s.entries)
	}
	return len(s.entries) + len(s.own.entries)
}

// At returns the entry of a place.
func (s *Set) At(place int) Entry {
	if n := len(s.entries); place >= n {
		return s.own.entries[place-n]
	}
	return s.entries[place]
}

// Place returns the place of a name, and whether there is one.
func (s *Set) Place(name string) (place int, ok bool) {
	place, ok = s.byName[name]
	if !ok && s.own != nil {
		place, ok = s.own.byName[name]
		place += len(s.entries)
	}
	return place, ok
}

// Defaults returns the places of the entries that are injected by default, in order. The
// caller must not change the slice.
func (s *Set) Defaults() []int { return s.defaults }

// Required returns the places of the required entries, in order. The caller must not change
// the slice.
func (s *Set) Required() []int { return s.required }

// Matching returns the places of the entries that match a pod in a namespace by their
// labels, in order. Required ones see requiredPod, the others pod. It takes as long as there
// are labels, and entries that need one of them or none.
func (s *Set) Matching(namespace, pod, requiredPod map[string]string) []int {
	found := s.requiredMatching.find(s.matching.find(nil, namespace, pod), namespace, requiredPod)
	if s.own != nil {
		found = s.following(found, s.own.matching.find(nil, namespace, pod))
	}
	slices.Sort(found)
	return found
}

// RequiredIn reports whether a required entry selects the namespace with these labels,
// whatever the pod's labels are.
func (s *Set) RequiredIn(namespace map[string]string) bool {
	found := false
	s.selecting.each(namespace, nil, func(place int) bool {
		found = s.entries[place].Required()
		return !found
	})
	return found
}

// Selecting returns the places of the entries whose match selects a namespace with these
// labels, whatever the pods are, in no order.
func (s *Set) Selecting(namespace map[string]string) []int {
	found := s.selecting.find(nil, namespace, nil)
	if s.own != nil {
		found = s.following(found, s.own.Selecting(namespace))
	}
	return found
}
