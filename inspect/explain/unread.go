package explain

import (
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// annotationCodes are the codes that depend on no template but the required ones.
var annotationCodes = []reason.Code{reason.PodOptedOut, reason.NamespaceOptedOut, reason.NamespaceExcluded, reason.MirrorPod}

// withoutTemplates returns the parts of an outcome that do not depend on templates.
func withoutTemplates(out injector.Outcome) injector.Outcome {
	kept := injector.Outcome{Allowed: true}
	if out.Code == reason.BadAnnotation {
		kept = injector.Outcome{Code: out.Code, Refusals: out.Refusals, Message: out.Message, Command: out.Command}
	}
	if slices.Contains(annotationCodes, out.Code) {
		kept.Code = out.Code
	}
	for _, s := range out.Steps {
		if s.Template == "" {
			kept.Steps = append(kept.Steps, s)
		}
	}
	return kept
}

// setAnswerVerdict sets the verdict for a user who may not read the templates: by the pod's record and the API server's
// answer. Without an answer the annotations decide.
func (p *Pod) setAnswerVerdict() {
	p.Verdict = p.answerVerdict()
	if p.exists {
		var has []string
		for _, s := range p.Standings {
			if s.Has != "" {
				has = append(has, s.Name)
			}
		}
		p.Verdict = injectedWith(has) + "; created now: " + p.Verdict
	}
}

// answerVerdict formats the outcome for a new pod.
func (p *Pod) answerVerdict() string {
	switch d := p.DryRun; {
	case d != nil && d.Allowed:
		return injectedWith(d.Templates)
	case d != nil && p.Refused:
		return d.Text
	case p.Refused:
		return "refused (" + string(p.Code) + ")"
	case p.Code != "":
		return "not injected (" + string(p.Code) + "), unless a template is required"
	}
	for _, level := range []policy.Level{policy.Pod, policy.Namespace} {
		for _, r := range p.Rules {
			switch {
			case r.Level != level:
			case strings.HasPrefix(r.Input, v1alpha1.InjectKey):
				return "as the " + string(level) + " says, " + r.Input
			case strings.HasPrefix(r.Input, "not known"):
				return "as its namespace asks"
			}
		}
	}
	return "not injected, unless a template matches it"
}

func injectedWith(templates []string) string {
	if len(templates) == 0 {
		return "not injected"
	}
	return "injected with " + strings.Join(templates, ", ")
}
