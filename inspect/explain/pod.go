package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
)

// StateUnknown is the state of a template of which it is not known whether a new pod gets it, or
// gets it otherwise.
const StateUnknown drift.State = "perhaps outdated"

// Input is one pod, and what became of it.
type Input struct {
	// Name is the object that holds the pod, as KIND/NAME.
	Name, Namespace string
	// Unknown says why the namespace's annotations are not known, "" if they are.
	Unknown string
	Outcome injector.Outcome
	// Standing compares a pod that exists with a new one. It is nil for a new pod, and for one
	// of which the comparison means nothing.
	Standing *drift.Comparison
	// Keys are the findings of [keys.Check].
	Keys []keys.Finding
}

// Of explains one pod.
func Of(in Input) Pod {
	p := Pod{
		Name: in.Name, Namespace: in.Namespace, Code: in.Outcome.Code, Message: in.Outcome.Refusal(),
		Refused: !in.Outcome.Allowed,
		Rules:   []policy.Step{}, NotAsked: []string{}, Templates: []Template{}, Standings: []drift.Template{}, Differences: []string{},
		Effects: append([]injector.Effect{}, in.Outcome.Effects...), Kept: append([]injector.PodValue{}, in.Outcome.PodValues...),
		Warnings: append([]string{}, in.Outcome.Warnings...), Notes: []Note{}, Keys: Sentences(in.Keys),
	}
	for _, t := range in.Outcome.Templates {
		if t.Code == reason.NotRequested {
			p.NotAsked = append(p.NotAsked, t.Name)
		}
		p.Templates = append(p.Templates, Template{Name: t.Name, Canary: t.Canary, Hash: t.Hash, Code: t.Code, Why: t.Why, Parameters: in.parameters(t)})
	}
	for _, s := range in.Outcome.Steps {
		if s.Template != "" && slices.Contains(p.NotAsked, s.Template) {
			continue
		}
		if s.Level == policy.Namespace && in.Unknown != "" {
			s.Input = in.Unknown
		}
		p.Rules = append(p.Rules, s)
	}
	if s := in.Standing; s != nil {
		for _, t := range s.Templates {
			if t.Has != "" || t.Gets != "" {
				p.Standings = append(p.Standings, t)
			}
		}
		for _, place := range s.Places {
			text := place.String()
			if len(place.Templates) > 0 {
				text += " (" + strings.Join(place.Templates, ", ") + ")"
			}
			p.Differences = append(p.Differences, text)
		}
	}
	p.Verdict = p.verdict(in)
	return p
}

// Sentences returns findings as sentences, an empty list for none.
func Sentences(found []keys.Finding) []string {
	all := []string{}
	for _, f := range found {
		all = append(all, f.String())
	}
	return all
}

// Concerned reports whether a template is in an outcome for another reason than that it exists.
func Concerned(out injector.Outcome) func(template string) bool {
	return func(template string) bool {
		return slices.ContainsFunc(out.Templates, func(t injector.TemplateOutcome) bool { return t.Name == template && t.Code != reason.NotRequested })
	}
}

// parameters returns a template's, by name.
func (in Input) parameters(t injector.TemplateOutcome) []Parameter {
	all := []Parameter{}
	annotations := map[string]string{}
	if version := t.Template(); version != nil {
		for _, p := range version.Parameters() {
			annotations[p.Name] = p.Annotation
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		all = append(all, Parameter{Name: name, Annotation: annotations[name], Value: t.Params[name], From: string(t.Origins[name])})
	}
	return all
}

// verdict says whether a new pod is injected, or how a pod that exists compares with a new
// one. It has the reason code for a pod that is created now.
func (p Pod) verdict(in Input) string {
	if in.Standing != nil {
		return p.verdictOfOne(in)
	}
	switch {
	case !in.Outcome.Allowed:
		return fmt.Sprintf("refused (%s)", in.Outcome.Code)
	case in.Outcome.Code == reason.Injected:
		return fmt.Sprintf("injected (%s)", in.Outcome.Code)
	}
	return fmt.Sprintf("admitted as it is (%s)", in.Outcome.Code)
}

// verdictOfOne is the verdict of a pod that exists.
func (p Pod) verdictOfOne(in Input) string {
	behind := Behind(in.Standing)
	has := slices.ContainsFunc(p.Standings, func(s drift.Template) bool { return s.Has != "" })
	now := "not injected"
	if has {
		now = "injected"
	}
	switch {
	case !in.Outcome.Allowed:
		return fmt.Sprintf("%s; created now it would be refused (%s)", now, in.Outcome.Code)
	case behind != "" && has:
		return fmt.Sprintf("injected, and %s; created now: %s", behind, in.Outcome.Code)
	case behind != "":
		return fmt.Sprintf("not injected; %s; created now: %s", behind, in.Outcome.Code)
	case in.Outcome.Code == reason.Injected:
		return fmt.Sprintf("injected already, nothing to change (%s)", in.Outcome.Code)
	case has:
		return fmt.Sprintf("injected; created now it would be admitted as it is (%s)", in.Outcome.Code)
	}
	return fmt.Sprintf("admitted as it is (%s)", in.Outcome.Code)
}

// Behind says how a pod differs from one that is created now, "" if it does not, or is none.
func Behind(s *drift.Comparison) string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, state := range []drift.State{drift.Outdated, StateUnknown, drift.Missing} {
		if names := drift.Named(s.Templates, state); len(names) > 0 {
			parts = append(parts, string(state)+": "+strings.Join(names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// Value returns a parameter's value, or one of a pod, as an annotation or JSON has it.
func Value(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(encoded)
}
