package policy

// exception is one of a required template that selects the pod.
type exception struct {
	template  string
	place     int
	name, why string
}

// except reports whether the pod is excepted from a template that matches it. Exceptions see the
// labels that the template's match sees.
func (d *decider) except(place int) bool {
	t := d.catalog.At(place)
	if !t.Required || t.Suspended || t.Exceptions == nil {
		return false
	}
	name, why, excepted := t.Exceptions.Excepted(d.request.NamespaceLabels, d.request.RequiredPodLabels, d.request.Now)
	if name == "" {
		return false
	}
	if excepted {
		d.excepted = append(d.excepted, exception{t.Name, place, name, why})
		if d.result.Excepted == nil {
			d.result.Excepted = map[string]bool{}
		}
		d.result.Excepted[t.Name] = true
		return true
	}
	d.step(Step{Template: t.Name, Rule: "template " + t.Name, Input: why, Result: "ended: the template is required"})
	return false
}
