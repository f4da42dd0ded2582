package injector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// conclude combines the results of the steps: one code, and a message if the pod is refused.
func (c *call) conclude(a answer) Outcome {
	out := Outcome{Allowed: true, Code: a.decision.Code, Recorded: !a.record.Empty(), Change: Change{Pod: c.request.Pod}}
	out.Steps = slices.Clone(a.decision.Steps)
	if a.unreadable != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf(ignoringRecord, a.unreadable))
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
		} else if o.Requested {
			out.Warnings = append(out.Warnings, t.Warning())
		}
	}
	turns := slices.Concat(a.applied.turns, a.written.required.turns)
	for _, t := range turns {
		out.Templates = append(out.Templates, t.outcome)
		out.Steps = append(out.Steps, t.steps...)
		out.Warnings = append(out.Warnings, t.sentences...)
		if t.refuses {
			out.Refusals = append(out.Refusals, t.outcome)
		}
	}
	rest := slices.Clone(a.written.required.refusals)
	if a.written.failure != nil {
		rest = append(rest, *a.written.failure)
	}
	for _, t := range rest {
		if !slices.ContainsFunc(out.Refusals, func(o TemplateOutcome) bool { return o.Name == t.Name && o.Code == t.Code }) {
			out.Templates, out.Refusals = append(out.Templates, t), append(out.Refusals, t)
		}
	}
	if len(out.Refusals) == 0 {
		c.injected(&out, a, turns)
	} else {
		out.Allowed, out.Code = false, out.Refusals[0].Code
		out.Command = c.config.explainCommand(c.request)
		out.Message = refused(out.Refusals, out.Code)
	}
	for _, list := range [][]TemplateOutcome{out.Templates, out.Refusals} {
		for i := range list {
			entry, _ := c.request.Templates.Get(list[i].Name)
			list[i].Recorded, list[i].Namespaced = list[i].Name != "" && a.record.Hash(list[i].Name) != "", entry.Namespace != ""
		}
	}
	return out
}

// injected completes the outcome of an allowed pod.
func (c *call) injected(out *Outcome, a answer, turns []turn) {
	rec := a.record
	if a.written.record != nil {
		out.Change, rec = a.written.change, *a.written.record
	}
	out.Warnings = append(out.Warnings, warningsOf(turns)...)
	out.Warnings = append(out.Warnings, a.written.warnings...)
	if untrue := rec.Untrue(out.Pod); len(untrue) > 0 {
		for i, key := range untrue {
			untrue[i] = podschema.Clip(key)
		}
		out.Warnings = append(out.Warnings, reason.UntrueLabel.Warning(fmt.Sprintf(untrueLabels, strings.Join(untrue, ", "))))
	}
	out.writers = &merge.Writers{}
	for _, t := range turns {
		out.writers.Add(t.outcome.Name, t.writes)
	}
	if c.request.Explain {
		out.Effects, out.PodValues = effectsOf(turns), keptOf(turns)
	}
	switch {
	case slices.ContainsFunc(out.Templates, func(t TemplateOutcome) bool { return t.Code == reason.Injected }):
		out.Code = reason.Injected
	case out.Code == "":
		out.Code = reason.NotRequested
		for _, t := range out.Templates {
			if t.Requested {
				out.Code = t.Code
			}
		}
	}
}

// warningsOf returns the warnings of the templates, each once. It leaves out a pod's value that a later
// template replaces.
func warningsOf(turns []turn) []string {
	replaced := replacedIn(turns)
	var all []string
	add := func(text string) {
		if text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, t := range turns {
		for _, k := range t.podValues {
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

// replacedIn returns the paths of the values that templates replaced or removed.
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

// effectsOf returns the effects of all templates, one for each place, ordered by path.
func effectsOf(turns []turn) []Effect {
	index := map[string]int{}
	var all []Effect
	for _, t := range turns {
		for _, w := range t.writes {
			if w.Effect == merge.Created || isKey(w.Path) {
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

// isKey reports whether a path leads to a key field of an item. That such a field agrees goes without saying.
func isKey(path *podschema.Path) bool {
	if path.Parent() == nil {
		return false
	}
	item := path.Parent().Name()
	return strings.HasPrefix(item, path.Name()+"=") || strings.Contains(item, ","+path.Name()+"=")
}

// keptOf returns the pod's values that win over a template's, in the order of the templates. It leaves out a
// value that another template replaces.
func keptOf(turns []turn) []PodValue {
	replaced := replacedIn(turns)
	var all []PodValue
	for _, t := range turns {
		for _, k := range t.podValues {
			if !replaced[k.Path.String()] {
				all = append(all, PodValue{Path: k.Path.Readable(), Template: k.Template, Why: k.Why, Has: k.Has, Wants: k.Wants})
			}
		}
	}
	return all
}
