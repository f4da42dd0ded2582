package injector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// conclude sums a request up: one code, and a message if the pod is refused.
func (c *call) conclude(a answer) Outcome {
	out := Outcome{Allowed: true, Code: a.decision.Code, Pod: c.request.Pod, Steps: slices.Clone(a.decision.Steps), Recorded: !a.record.Empty()}
	if a.unreadable != nil {
		out.Warnings = append(out.Warnings, "ignoring "+a.unreadable.Error())
	}
	out.Warnings = append(out.Warnings, a.decision.Warnings...)
	if a.decision.Deny {
		out.Refusals = append(out.Refusals, TemplateOutcome{Code: a.decision.Code, Why: a.decision.Why})
	}
	for _, o := range a.decision.Exclusions {
		t := excluded(o)
		out.Templates = append(out.Templates, t)
		if o.Deny {
			out.Refusals = append(out.Refusals, t)
		} else if o.Asked {
			out.Warnings = append(out.Warnings, t.Warning())
		}
	}
	turns := slices.Concat(a.applied.turns, a.required.turns)
	for _, t := range turns {
		out.Templates = append(out.Templates, t.outcome)
		out.Steps = append(out.Steps, t.steps...)
		out.Warnings = append(out.Warnings, t.sentences...)
		if t.refuses {
			out.Refusals = append(out.Refusals, t.outcome)
		}
	}
	for _, t := range slices.Concat(a.required.refusals, a.failure) {
		if !slices.ContainsFunc(out.Refusals, func(o TemplateOutcome) bool { return o.Name == t.Name && o.Code == t.Code }) {
			out.Templates, out.Refusals = append(out.Templates, t), append(out.Refusals, t)
		}
	}
	if len(out.Refusals) == 0 {
		c.injected(&out, a, turns)
	} else {
		out.Allowed, out.Code = false, out.Refusals[0].Code
		out.Command = c.config.explainCommand(c.request)
		out.Message = refused(out.Refusals, out.Code, out.Command)
	}
	for _, list := range [][]TemplateOutcome{out.Templates, out.Refusals} {
		for i := range list {
			entry, _ := c.request.Templates.Get(list[i].Name)
			list[i].Recorded, list[i].Namespaced = list[i].Name != "" && a.record.Hash(list[i].Name) != "", entry.Namespace != ""
		}
	}
	return out
}

// injected adds to the outcome of a pod that is admitted what was done to it.
func (c *call) injected(out *Outcome, a answer, turns []turn) {
	rec := a.record
	if a.written != nil {
		out.Pod, out.Operations, rec = a.pod, a.operations, *a.written
		out.PodTemplate, out.PodTemplateOperations = a.podTemplate, a.templateOperations
	}
	out.Warnings = append(out.Warnings, warningsOf(turns)...)
	out.Warnings = append(out.Warnings, a.warnings...)
	if untrue := rec.Untrue(out.Pod); len(untrue) > 0 {
		for i, key := range untrue {
			untrue[i] = podschema.Clip(key)
		}
		out.Warnings = append(out.Warnings, reason.UntrueLabel.Warning(fmt.Sprintf(
			"labels of the pod say that a sidecar is injected that is not: %s; remove them from metadata.labels, or from the pod template of the workload: Pillion sets them itself", strings.Join(untrue, ", "))))
	}
	out.writers = &merge.Writers{}
	for _, t := range turns {
		out.writers.Add(t.outcome.Name, t.writes)
	}
	if c.request.Explain {
		out.Effects, out.Kept = effectsOf(turns), keptOf(turns)
	}
	switch {
	case slices.ContainsFunc(out.Templates, func(t TemplateOutcome) bool { return t.Code == reason.Injected }):
		out.Code = reason.Injected
	case out.Code == "":
		out.Code = reason.NotRequested
		for _, t := range out.Templates {
			if t.Asked {
				out.Code = t.Code
			}
		}
	}
}

// warningsOf returns the warnings of the templates, each once. A value that a later template replaces does
// not stay, whatever an earlier one says.
func warningsOf(turns []turn) []string {
	replaced := replacedIn(turns)
	var all []string
	add := func(text string) {
		if text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, t := range turns {
		for _, k := range t.kept {
			if !replaced[k.Path.String()] {
				add(k.Warning())
			}
		}
		for _, w := range t.warnings {
			add(w.String())
		}
	}
	return all
}

// replacedIn returns the places whose values templates replaced or removed.
func replacedIn(turns []turn) map[string]bool {
	replaced := map[string]bool{}
	for _, t := range turns {
		for _, w := range t.writes {
			if w.Effect == merge.Replaced || w.Effect == merge.Removed {
				replaced[w.Path.String()] = true
			}
		}
	}
	return replaced
}

// effectsOf returns what the templates do, place by place, in the order of the paths.
func effectsOf(turns []turn) []Effect {
	index := map[string]int{}
	var all []Effect
	for _, t := range turns {
		for _, w := range t.writes {
			if w.Effect == merge.Made || isKey(w.Path) {
				continue
			}
			path := w.Path.String()
			i, have := index[path]
			if !have {
				index[path] = len(all)
				all = append(all, Effect{Path: w.Path.Readable(), Effect: w.Effect, Templates: []string{t.outcome.Name}, Was: w.Was, Now: w.Value})
				if w.Effect == merge.Same {
					all[len(all)-1].Was = w.Value
				}
				continue
			}
			all[i].Templates = append(all[i].Templates, t.outcome.Name)
			if w.Effect != merge.Same {
				all[i].Now = w.Value
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Effect) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// isKey reports whether a path leads to a field that finds the item around it: that it is the same goes
// without saying.
func isKey(path *podschema.Path) bool {
	if path.Parent() == nil {
		return false
	}
	item := path.Parent().Name()
	return strings.HasPrefix(item, path.Name()+"=") || strings.Contains(item, ","+path.Name()+"=")
}

// keptOf returns the values of the pod that stay, in the order in which the templates met them. A value that
// another template replaces is not among them.
func keptOf(turns []turn) []Kept {
	replaced := replacedIn(turns)
	var all []Kept
	for _, t := range turns {
		for _, k := range t.kept {
			if !replaced[k.Path.String()] {
				all = append(all, Kept{Path: k.Path.Readable(), Template: k.Template, Why: k.Why, Has: k.Has, Wants: k.Wants})
			}
		}
	}
	return all
}

// Refusal says why the pod is refused, without the command that explains it: it is the same for
// all workloads that are refused for the same. It is empty for a pod that is admitted.
func (o Outcome) Refusal() string {
	if len(o.Refusals) == 0 {
		return o.Message
	}
	return fmt.Sprintf("%s (%s)", sentences(o.Refusals), o.Code)
}

// refused is the message for a pod that is refused. The command explains it.
func refused(refusals []TemplateOutcome, code reason.Code, command string) string {
	return fmt.Sprintf("%s (%s; for details run: %s)", sentences(refusals), code, command)
}

// sentences joins refusals, each with the name of its template.
func sentences(refusals []TemplateOutcome) string {
	whys := make([]string, len(refusals))
	for i, t := range refusals {
		whys[i] = t.Sentence()
	}
	return strings.Join(whys, "; ")
}

// Sentence says why, with the name of the template.
func (t TemplateOutcome) Sentence() string {
	if t.Name == "" || t.named {
		return t.Why
	}
	return "template " + t.Name + ": " + t.Why
}

// Warning is the warning of a pod that goes without the template.
func (t TemplateOutcome) Warning() string {
	return t.Code.Warning(fmt.Sprintf("without %s: %s", t.Name, t.Why))
}
