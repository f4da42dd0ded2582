package drift

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// State is the state of a pod with regard to one template.
type State string

const (
	// Current: the pod has the template as a new pod would.
	Current State = "injected"
	// Outdated: the pod has the template, and a new pod would differ in a place that the template writes.
	// Another hash alone does not count.
	Outdated State = "outdated"
	// Missing: the pod lacks the template, and a new pod would get it.
	Missing State = "missing"
	// Refused: a new pod would be refused.
	Refused State = "refused"
	// Dropped: the pod has the template, and a new pod would not.
	Dropped State = "dropped"
	// NotAsked: the pod lacks the template, and so would a new pod.
	NotAsked State = "not asked"
)

// Template compares a pod with a new one, for one template.
type Template struct {
	Name  string `json:"template"`
	State State  `json:"state"`
	// Has is the template's hash in the pod's record, Gets its hash in a new pod. Either is "" if the pod does
	// not get the template.
	Has  string `json:"has,omitempty"`
	Gets string `json:"gets,omitempty"`
	// Code is the template's reason code in a new pod, Why its sentence.
	Code reason.Code `json:"code,omitempty"`
	Why  string      `json:"-"`
	// Exception names the exception that exempts a new pod from a required template, "" for none.
	Exception string `json:"-"`
}

// Templates compares a record with the outcome for a new pod, template by template: those of the outcome come
// first. It does not find the state Outdated, which takes both pods.
func Templates(rec record.Record, out injector.Outcome, set *templates.Set) []Template {
	var all []Template
	seen := map[string]bool{}
	for _, o := range out.Templates {
		if o.Name == "" || seen[o.Name] {
			continue
		}
		seen[o.Name] = true
		t := Template{Name: o.Name, Has: rec.Hash(o.Name), Code: o.Code, Why: o.Why, Exception: o.Exception}
		if o.Code == reason.Injected {
			t.Gets = o.Hash
		}
		t.State = t.state(out)
		all = append(all, t)
	}
	for _, name := range slices.Sorted(maps.Keys(rec.Templates)) {
		if seen[name] {
			continue
		}
		t := Template{Name: name, Has: rec.Hash(name), Code: reason.NotRequested}
		if _, exists := set.Get(name); !exists {
			t.Code = reason.UnknownTemplate
		} else if out.Code != "" && out.Code != reason.Injected {
			t.Code = out.Code // one rule decides about the whole pod
		}
		t.Why = t.Code.Sentence()
		t.State = t.state(out)
		all = append(all, t)
	}
	return all
}

func (t Template) state(out injector.Outcome) State {
	switch {
	case !out.Allowed:
		return Refused
	case t.Gets == "" && t.Has == "":
		return NotAsked
	case t.Gets == "":
		return Dropped
	case t.Has == "":
		return Missing
	}
	return Current
}

// Named returns the names of the templates in a state.
func Named(all []Template, in State) []string {
	var names []string
	for _, t := range all {
		if t.State == in {
			names = append(names, t.Name)
		}
	}
	return names
}

// Place is a place of a pod in which a new pod differs.
type Place struct {
	Path *podschema.Path
	// Templates are the new pod's templates that write the place. It may be empty.
	Templates []string
}

// String writes the path as people do.
func (p Place) String() string { return p.Path.Readable() }

// Comparison is the comparison of a pod with the pod that would be created in its place now.
type Comparison struct {
	// Counts is false for a pod that has ended or is being deleted, and for a mirror pod. All other fields are
	// empty then.
	Counts bool
	// Called reports whether API servers call Pillion for a new pod.
	Called bool
	// Templates are the templates of the pod and of the new pod, and those with a reason why the new pod goes
	// without them.
	Templates []Template
	// Places are the places at which the two records differ.
	Places []Place
	// Code is the reason code of a new pod, Message says why it would be refused.
	Code    reason.Code
	Message string
	// Base is the pod as its author wrote it, as far as managedFields tell: without Pillion's values and
	// without later changes by the cluster. New is the pod that would be created now, or Base if it would be
	// refused.
	Base, New map[string]any
}

// Has reports whether a template is in the state.
func (s Comparison) Has(in State) bool {
	return slices.ContainsFunc(s.Templates, func(t Template) bool { return t.State == in })
}

// Template returns the comparison for a template. It returns the state NotAsked for an unrelated template.
func (s Comparison) Template(name string) Template {
	if i := slices.IndexFunc(s.Templates, func(t Template) bool { return t.Name == name }); i >= 0 {
		return s.Templates[i]
	}
	return Template{Name: name, State: NotAsked, Code: cmp.Or(s.Code, reason.NotRequested), Why: reason.NotRequested.Sentence()}
}

// Injected reports whether the pod has a template.
func (s Comparison) Injected() bool {
	return slices.ContainsFunc(s.Templates, func(t Template) bool { return t.Has != "" })
}

// Behind reports whether a template is missing or outdated.
func (s Comparison) Behind() bool { return s.Has(Missing) || s.Has(Outdated) }
