package merge

import (
	"fmt"
	"sync"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Conflict says that a template wants a value where another one stands. The pod's author resolves it
// (another name, another value, no such template), or the template's author (onConflict).
type Conflict struct {
	Template string
	// Other is the template that put the standing value there, "" for the pod's author.
	Other string
	Path  *podschema.Path
	// Stands and Wants are the standing value and the wanted one, nil for nothing.
	Stands, Wants any
	// Hint says, where the values alone do not, why both cannot be.
	Hint string
}

func (e *Conflict) Error() string {
	whose := "the pod has"
	if e.Other != "" {
		whose = "template " + e.Other + " has"
	}
	hint := ""
	if e.Hint != "" {
		hint = " (" + e.Hint + ")"
	}
	return fmt.Sprintf("template %s conflicts at %s: %s %s, the template sets %s%s", e.Template, e.Path.Readable(), whose, shown(e.Stands), shown(e.Wants), hint)
}

func shown(v any) string {
	if v == nil {
		return "nothing there"
	}
	return podschema.Show(v)
}

// KeptBy says which rule leaves the pod's own value alone.
type KeptBy string

const (
	// KeptByRule: labels, annotations, and in the pod's own containers variables and mounts
	// are the pod's author's.
	KeptByRule KeptBy = "rule"
	// KeptByNode: the template says $onConflict: KeepPod there, or around the place.
	KeptByNode KeptBy = "$onConflict"
	// KeptByTemplate: the template says onConflict: KeepPod.
	KeptByTemplate KeptBy = "onConflict"
	// KeptByOverridable: the template lets a pod declare a container of its sidecar's name,
	// and this pod does.
	KeptByOverridable KeptBy = "overridable"
)

// Kept is a value of the pod that stays, where a template wants another one.
type Kept struct {
	Path     *podschema.Path
	Template string
	Why      KeptBy
	// Has is the pod's value. Wants is the template's, nil if it wants none there.
	Has, Wants any
}

// Warning returns what the pod's author is warned of, "" where the template says outright that the pod's value
// stays.
func (k Kept) Warning() string {
	text := "the pod's value is used, not the template's"
	switch list := k.Path.Parent(); {
	case k.Why == KeptByOverridable, k.Why == KeptByNode:
		return ""
	case list != nil && list.Name() == "volumeMounts" && podschema.ObjectOf(k.Has)["name"] != podschema.ObjectOf(k.Wants)["name"]:
		text = "the app already mounts this path, so a sidecar will not see its files"
	}
	return Warning{Template: k.Template, Path: k.Path, Text: text}.String()
}

// Warning is a sentence about one place.
type Warning struct {
	Template string
	Path     *podschema.Path
	Text     string
}

func (w Warning) String() string {
	return fmt.Sprintf("template %s: %s: %s", w.Template, w.Path.Readable(), w.Text)
}

func (m *merger) warn(at place, text string) {
	m.result.Warnings = append(m.result.Warnings, Warning{Template: m.template.Name, Path: at.path, Text: text})
}

// keep notes that the pod's value stays.
func (m *merger) keep(at place, why KeptBy, has, wants any) {
	m.result.Kept = append(m.result.Kept, Kept{at.path, m.template.Name, why, has, wants})
}

func (m *merger) disagree(at place, other string, stands, wants any, hint string) {
	m.result.Conflicts = append(m.result.Conflicts, &Conflict{m.template.Name, other, at.path, stands, wants, hint})
}

// agree notes that the template wants what stands there.
func (m *merger) agree(at place, t *podschema.Type, v any) {
	m.write(Write{Path: at.path, Type: t, Effect: Same, Value: v})
}

// meeting is a value of the pod where the template wants one.
type meeting struct {
	at   place
	t    *podschema.Type
	now  any
	want any
	// stays is set where the pod's own value wins without a conflict.
	stays bool
	// unset reports whether the value counts as absent: the API's default, or the work of the API
	// server's own admission.
	unset func() bool
}

// settle decides whether the template's value goes where another value stands, and notes what it
// decides.
func (m *merger) settle(s meeting) (put bool) {
	at := s.at
	if podschema.Equal(s.t, s.now, s.want) {
		m.agree(at, s.t, s.want)
		return false
	}
	if other := at.wrote(); other != "" {
		m.disagree(at, other, s.now, s.want, "")
		return false
	}
	policy := m.policyFor(s)
	other := ""
	if at.writers != nil {
		other = at.writers.by // it agrees with the pod's value
	}
	unset := s.unset != nil && s.unset()
	switch {
	case other != "" && (unset || policy != directive.KeepPod && policy != byRule):
		m.disagree(at, other, s.now, s.want, "")
		return false
	case unset:
		return true
	case at.author:
		m.keep(at, KeptByOverridable, s.now, s.want)
		return false
	}
	if policy == directive.Overwrite {
		if other := at.writers.inside(); other != "" {
			m.disagree(at, other, s.now, s.want, "that template extends it, and would lose its additions")
			return false
		}
	}
	return m.overrules(at, policy, s.now, s.want, "")
}

// byRule is KeepPod where nobody says so, but the place is the pod's author's.
const byRule = "by rule"

func (m *merger) policyFor(s meeting) string {
	switch {
	case m.template.Required && !s.at.ordered:
		return directive.Deny
	case s.stays && !s.at.explicit:
		return byRule
	}
	return s.at.policy
}

// overrules does what a policy says where the pod has another value, and reports whether the
// template's goes there.
func (m *merger) overrules(at place, policy string, stands, wants any, hint string) bool {
	switch policy {
	case directive.Overwrite:
		// A directive at the node says it outright; a setting of the whole template may reach values that
		// its author did not think of.
		if !at.explicit {
			m.warn(at, "the template's value replaces the pod's")
		}
		return true
	case directive.KeepPod, byRule:
		why := KeptByTemplate
		if policy == byRule {
			why = KeptByRule
		} else if at.explicit {
			why = KeptByNode
		}
		m.keep(at, why, stands, wants)
	default:
		m.disagree(at, "", stands, wants, hint)
	}
	return false
}

var envType, mountsType = typeAt("spec.containers[].env"), typeAt("spec.containers[].volumeMounts")

// typeAt returns the type at a path of the schema, which is read when it is first needed.
func typeAt(path string) func() *podschema.Type {
	return sync.OnceValue(func() *podschema.Type { return podschema.At(path) })
}

// stays reports whether the pod's own values in a map or list of type t win without a conflict:
// labels and annotations always, variables and mounts in a container that is the pod's own.
func stays(t *podschema.Type, at *podschema.Path, own bool) bool {
	if t == envType() || t == mountsType() {
		return own
	}
	return at.Is("metadata", "labels") || at.Is("metadata", "annotations")
}
