package policy

import (
	"fmt"
	"slices"
)

// verdict is the decision about one template.
type verdict struct {
	*Template
	place int
	// cause is the rule by which the template is wanted or taken off, "" for none.
	cause cause
	// asked: an annotation asks for it by name or by "true".
	asked bool
	// required: it is required of the pod. excepted: an exception in force takes the pod out.
	required, excepted bool
	// late: nothing asks for it, and its match selects the namespace and not the pod as it is.
	late bool
	// unknown: no template has the name.
	unknown bool
}

// cause is a rule by which a template is wanted or taken off.
type cause string

const (
	matching    cause = "it matches this pod by its labels and namespace"
	ofNamespace cause = "the namespace asks for it"
	byDefault   cause = "it is injected by default"
	ofPod       cause = "the pod asks for it"
	added       cause = "the pod adds it"
	required    cause = "it is required here"
	takenOff    cause = "the pod removes it"
	replaced    cause = "the pod's own list does not name it"
)

// isWanted reports whether an annotation asks for the template, or it matches or is required.
func (v verdict) isWanted() bool { return v.cause != "" && v.cause != takenOff && v.cause != replaced }

// sentence says by which rule a template is wanted or taken off.
func (v verdict) sentence(r Request) string {
	switch v.cause {
	case ofNamespace:
		return fmt.Sprintf("namespace %q asks for it", r.Namespace)
	case takenOff:
		return fmt.Sprintf("the pod removes it with \"-%s\"", v.Name)
	}
	return string(v.cause)
}

// judge decides about one template, by the table of [Decide].
func (d *decider) judge(t *Template) verdict {
	v := verdict{Template: t}
	if d.ignores == ignoresAll {
		return v
	}
	matches, inNamespace := t.matches(d.request)
	if e := t.Exception; e != nil && matches && t.Required && !t.Suspended {
		v.excepted, matches = !e.Ended, e.Ended
		if e.Ended {
			d.step(Step{Template: t.Name, Rule: "template " + t.Name, Input: e.Why, Result: "ended: the template is required"})
		}
	}
	if d.ignores == ignoresNothing {
		v.cause = d.byAnnotations(t, matches)
		v.asked = v.isWanted() && v.cause != matching
		v.late = v.cause == "" && inNamespace && !t.Required && d.off.code == "" && d.pod.Mode != Names
	}
	if matches && t.Required {
		v.cause, v.required = required, true
	}
	return v
}

// byAnnotations returns the rule of the pod's annotation for a template, or else that of the namespace's, or else
// that the template matches.
func (d *decider) byAnnotations(t *Template, matches bool) cause {
	inherited := cause("")
	switch {
	case d.namespace.Mode == Out:
	case slices.Contains(d.namespace.Names, t.Name):
		inherited = ofNamespace
	case d.namespace.Mode == Default && t.InjectByDefault:
		inherited = byDefault
	case matches:
		inherited = matching
	}
	switch {
	case slices.Contains(d.pod.Names, t.Name):
		return ofPod
	case slices.Contains(d.pod.Plus, t.Name):
		return added
	case slices.Contains(d.pod.Minus, t.Name):
		return takenOff
	case d.pod.Mode == Names && inherited != "":
		return replaced
	case d.pod.Mode == Out:
		return ""
	}
	return inherited
}
