package templates

import (
	"cmp"
	"errors"
	"slices"
)

// Entry is one template of a [Set].
type Entry struct {
	Name string
	// Source is the file or object that the name belongs to, as in
	// [Options.Source]. Empty if it is not known.
	Source string
	// Template is the last good version, or nil if none is known.
	Template *Template
	// Err is why the newest manifest cannot be used, or nil.
	Err error
}

// Broken returns what is known of an entry without a good version, or nil.
func (e Entry) Broken() *Broken {
	var mistakes *CompileError
	if e.Template != nil || !errors.As(e.Err, &mistakes) || mistakes.Template != e.Name {
		return nil
	}
	return mistakes.Broken
}

// Required reports whether the template is required, as far as that is known.
func (e Entry) Required() bool {
	if e.Template != nil {
		return e.Template.Spec().Required
	}
	b := e.Broken()
	return b != nil && b.Required
}

// InjectByDefault reports whether "true" asks for the template, as far as that is known.
func (e Entry) InjectByDefault() bool {
	if e.Template != nil {
		return e.Template.Spec().InjectByDefault
	}
	b := e.Broken()
	return b != nil && b.InjectByDefault
}

// Set is a snapshot of all templates. It is immutable.
type Set struct {
	entries []Entry
	byName  map[string]int
}

// NewSet returns the set of the given entries. Of several with one name the last
// counts.
func NewSet(entries []Entry) *Set {
	last := map[string]Entry{}
	for _, e := range entries {
		last[e.Name] = e
	}
	s := &Set{byName: make(map[string]int, len(last))}
	for _, e := range last {
		s.entries = append(s.entries, e)
	}
	slices.SortFunc(s.entries, compareEntries)
	for i, e := range s.entries {
		s.byName[e.Name] = i
	}
	return s
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

// Get returns the entry of a name, and whether there is one.
func (s *Set) Get(name string) (Entry, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Entry{}, false
	}
	return s.entries[i], true
}

// All returns the entries by order, then name; those without a template come
// last, by name. The caller may change the slice.
func (s *Set) All() []Entry { return slices.Clone(s.entries) }
