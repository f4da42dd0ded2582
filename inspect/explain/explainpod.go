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

// StateUnknown is the state of a template if the user lacks the rights to find out whether a new pod
// gets it, or in which version.
const StateUnknown drift.State = "perhaps outdated"

// Input is a pod with its outcome.
type Input struct {
	// Name is the object that has the pod, as KIND/NAME.
	Name, Namespace string
	// Unknown is the reason why the namespace's annotations are not known, or "".
	Unknown string
	Outcome injector.Outcome
	// Standing compares an existing pod with a new one. It is nil for a new pod, and for a pod
	// that cannot be compared, such as one that has ended.
	Standing *drift.Comparison
	// Keys are the findings of [keys.Check].
	Keys []keys.Finding
	// NoTemplates means that the templates are not known. The outcome is then that of no template.
	NoTemplates bool
}

// Of explains a pod.
func Of(in Input) Pod {
	if in.NoTemplates {
		in.Outcome = withoutTemplates(in.Outcome)
	}
	p := Pod{
		Name: in.Name, Namespace: in.Namespace, Code: in.Outcome.Code, Message: in.Outcome.Message,
		Refused: !in.Outcome.Allowed,
		Rules:   []policy.Step{}, NotAsked: []string{}, Templates: []Template{}, Standings: []drift.Template{}, Differences: []string{},
		Effects: append([]injector.Effect{}, in.Outcome.Effects...), KeptValues: append([]injector.PodValue{}, in.Outcome.PodValues...),
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
	if in.NoTemplates {
		p.noTemplates, p.exists = true, in.Standing != nil
		for i := range p.Standings {
			p.Standings[i].State, p.Standings[i].Code = StateUnknown, ""
		}
		p.setAnswerVerdict()
		return p
	}
	p.Verdict = p.verdict(in)
	return p
}

// HideUnasked removes the templates that nothing asks for: without a cluster these are the rest of the library.
func (p *Pod) HideUnasked() {
	p.NotAsked = []string{}
	p.Templates = slices.DeleteFunc(p.Templates, func(t Template) bool { return t.Code == reason.NotRequested })
}

// Sentences formats findings. It never returns nil.
func Sentences(found []keys.Finding) []string {
	all := []string{}
	for _, f := range found {
		all = append(all, f.String())
	}
	return all
}

// Concerned returns a function that reports whether a template was requested for the pod.
func Concerned(out injector.Outcome) func(template string) bool {
	return func(template string) bool {
		return slices.ContainsFunc(out.Templates, func(t injector.TemplateOutcome) bool { return t.Name == template && t.Code != reason.NotRequested })
	}
}

// parameters returns the parameters of a template, sorted by name.
func (in Input) parameters(t injector.TemplateOutcome) []Parameter {
	all := []Parameter{}
	annotations := map[string]string{}
	if version := t.Template(); version != nil {
		for _, p := range version.Parameters() {
			annotations[p.Name] = p.Annotations()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		all = append(all, Parameter{Name: name, Annotation: annotations[name], Value: t.Params[name], From: string(t.Origins[name])})
	}
	return all
}

// verdict formats whether a new pod is injected, or how an existing pod differs from a new one, with
// the reason code for a new pod.
func (p Pod) verdict(in Input) string {
	if in.Standing != nil {
		return p.existingVerdict(in)
	}
	switch {
	case !in.Outcome.Allowed:
		return fmt.Sprintf("refused (%s)", in.Outcome.Code)
	case in.Outcome.Code == reason.Injected:
		return fmt.Sprintf("injected (%s)", in.Outcome.Code)
	}
	return fmt.Sprintf("admitted as it is (%s)", in.Outcome.Code)
}

// existingVerdict formats the verdict of an existing pod.
func (p Pod) existingVerdict(in Input) string {
	behind := FormatDifference(in.Standing)
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

// FormatDifference formats how a pod differs from a new one. It returns "" if it does not differ, or for nil.
func FormatDifference(s *drift.Comparison) string {
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

// Value formats a value of a parameter or a pod, as in an annotation or as JSON.
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
