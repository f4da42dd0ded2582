package merge

import (
	"sync"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Conflict is a place where a template has another value than the pod or another template. The pod's author
// resolves it (another name, another value, no such template), or the template's author (onConflict).
type Conflict struct {
	Template string
	// Other is the template that wrote the present value, "" for the pod's author.
	Other string
	Path  *podschema.Path
	// Stands is the present value, Wants the template's. Nil means none.
	Stands, Wants any
	// Hint explains the conflict if the two values alone do not.
	Hint string
}

// KeptBy is the rule by which the pod's own value wins.
type KeptBy string

const (
	// KeptByRule: labels and annotations belong to the pod's author, and so do variables and mounts in the
	// pod's own containers.
	KeptByRule KeptBy = "rule"
	// KeptByNode: the template says $onConflict: KeepPod at the place, or around it.
	KeptByNode KeptBy = "$onConflict"
	// KeptByTemplate: the template says onConflict: KeepPod.
	KeptByTemplate KeptBy = "onConflict"
	// KeptByOverridable: the template is overridable, and the pod declares a container of its sidecar's name.
	KeptByOverridable KeptBy = "overridable"
)

// PodValue is a value of the pod that wins over a template's.
type PodValue struct {
	Path     *podschema.Path
	Template string
	Why      KeptBy
	// Has is the pod's value. Wants is the template's, nil if the template removes the value.
	Has, Wants any
}

// Warning is a sentence about one place.
type Warning struct {
	Template string
	Path     *podschema.Path
	Text     string
}

func (m *merger) warn(at place, text string) {
	m.result.Warnings = append(m.result.Warnings, Warning{Template: m.template.Name, Path: at.path, Text: text})
}

// retain records that the pod's value wins.
func (m *merger) retain(at place, why KeptBy, has, wants any) {
	m.result.PodValues = append(m.result.PodValues, PodValue{at.path, m.template.Name, why, has, wants})
}

func (m *merger) disagree(at place, other string, stands, wants any, hint string) {
	m.result.Conflicts = append(m.result.Conflicts, &Conflict{m.template.Name, other, at.path, stands, wants, hint})
}

// agree records that the place already has the template's value.
func (m *merger) agree(at place, t *podschema.Type, v any) {
	m.write(Write{Path: at.path, Type: t, Effect: Same, Value: v})
}

// meeting is a place at which both the pod and the template have a value.
type meeting struct {
	at   place
	t    *podschema.Type
	now  any
	want any
	// stays is set if the pod's own value wins without a conflict.
	stays bool
	// unset reports whether the pod's value counts as absent: the API's default, or a value of the API server's
	// own admission.
	unset func() bool
	// hint explains a conflict with the pod's own value.
	hint string
}

// settle compares the template's value with the pod's, and records the result. It reports whether the caller
// writes the template's value.
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
		other = at.writers.by // it agrees with the present value
	}
	unset := s.unset != nil && s.unset()
	switch {
	case other != "" && (unset || policy != directive.KeepPod && policy != byRule):
		m.disagree(at, other, s.now, s.want, "")
		return false
	case unset:
		return true
	case at.author:
		m.retain(at, KeptByOverridable, s.now, s.want)
		return false
	}
	if policy == directive.Overwrite {
		if other := at.writers.inside(); other != "" {
			m.disagree(at, other, s.now, s.want, hintExtends)
			return false
		}
	}
	return m.overrules(at, policy, s.now, s.want, s.hint)
}

// byRule is KeepPod by default, for a place that belongs to the pod's author.
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

// overrules applies a conflict policy. It reports whether the template's value replaces the pod's.
func (m *merger) overrules(at place, policy string, stands, wants any, hint string) bool {
	switch policy {
	case directive.Overwrite:
		// A directive at the node is explicit. onConflict of the whole template may reach values that its
		// author did not think of.
		if !at.explicit {
			m.warn(at, templateReplaces)
		}
		return true
	case directive.KeepPod, byRule:
		why := KeptByTemplate
		if policy == byRule {
			why = KeptByRule
		} else if at.explicit {
			why = KeptByNode
		}
		m.retain(at, why, stands, wants)
	default:
		m.disagree(at, "", stands, wants, hint)
	}
	return false
}

var envType, mountsType = typeAt("spec.containers[].env"), typeAt("spec.containers[].volumeMounts")

// typeAt returns the type at a path of the schema. It reads the schema when it is first called.
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
