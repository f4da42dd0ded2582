package policy

import "slices"

// verdict is the decision about one template.
type verdict struct {
	*Template
	place int
	// cause is the rule that requests or excludes the template, "" for none.
	cause cause
	// requested is set if an annotation requests it, by name or by "true".
	requested bool
	// required is set if it is required of the pod, excepted if an exception in force exempts the pod.
	required, excepted bool
	// late is set if nothing requests it, and its match selects the namespace but not the pod.
	late bool
	// unknown is set for a name without a template.
	unknown bool
}

// isWanted reports whether the template is requested, matches or is required.
func (v verdict) isWanted() bool { return v.cause != "" && v.cause != takenOff && v.cause != replaced }

// decideTemplate decides about one template, by the table of [Decide].
func (d *decider) decideTemplate(t *Template) verdict {
	v := verdict{Template: t}
	if d.ignores == ignoresAll {
		return v
	}
	selection := t.selection(d.request)
	matches := selection == selectsPod
	if e := t.Exception; e != nil && matches && t.Required && !t.Suspended {
		v.excepted, matches = !e.Ended, e.Ended
		if e.Ended {
			d.step(Step{Template: t.Name, Rule: "template " + t.Name, Input: e.Why, Result: exceptionEnded})
		}
	}
	if d.ignores == ignoresNothing {
		v.cause = d.byAnnotations(t, matches)
		v.requested = v.isWanted() && v.cause != matching
		v.late = v.cause == "" && selection != selectsNothing && !t.Required && d.off.code == "" && d.pod.Mode != Names
	}
	if matches && t.Required {
		v.cause, v.required = required, true
	}
	return v
}

// byAnnotations returns the rule of the pod's annotation for a template, or else the rule of the namespace's
// annotation, or else that the template matches.
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
