package manifests

import (
	"context"
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Inject injects into every pod of the session. The report has the notes also if there is an error.
func (s *Session) Inject(ctx context.Context) (Report, error) {
	var report Report
	var requested bool
	var quiet *workload.Pod // the first one that a template matches, else the first one
	var reasons []string    // of the templates that match it and are not injected
	for _, d := range s.Documents {
		r := Result{Before: d}
		var err error
		r.After, r.Pods, err = ChangePods(s.File, d, func(p workload.Pod) (map[string]any, error) {
			out, err := s.Outcome(ctx, p)
			if err != nil {
				return nil, err
			}
			report.Notes = append(report.Notes, notesOf(p, out)...)
			report.IsRefused, requested = report.IsRefused || !out.Allowed, requested || out.Code != reason.NotRequested
			if why := matching(out); quiet == nil || len(reasons) == 0 && len(why) > 0 {
				quiet, reasons = &p, why
			}
			if len(out.PodTemplateOperations) == 0 {
				return p.Object, nil
			}
			r.Patches = append(r.Patches, out.PodTemplateOperations...)
			r.IsChanged = true
			return out.PodTemplate, nil
		})
		if err != nil && s.File != "" {
			return report, err
		}
		if err != nil {
			report.Notes = append(report.Notes, Note{Severity: Refusal, Object: d.Object, Owner: fmt.Sprintf("items[%d]", d.Number-1), Text: err.Error()})
			report.IsRefused = true
		}
		report.Results = append(report.Results, r)
	}
	for _, mistake := range s.UnreportedMistakes() {
		report.Notes = append(report.Notes, Note{Severity: Warning, Text: mistake.Error()})
	}
	switch {
	case requested || quiet == nil:
	case len(reasons) > 0:
		report.Notes = append(report.Notes, podNote(Remark, *quiet, "nothing is injected: "+strings.Join(reasons, "; ")))
	default:
		report.Notes = append(report.Notes, Note{Severity: Remark, Text: s.notRequested(*quiet)})
	}
	return report, nil
}

// matching returns a sentence for each template that matches a pod and is not injected.
func matching(out injector.Outcome) []string {
	var sentences []string
	for _, t := range out.Templates {
		if t.Code != reason.NotRequested {
			sentences = append(sentences, t.Sentence())
		}
	}
	return sentences
}

// notRequested says why nothing is injected where no pod requests a template and none matches, by the first pod.
func (s *Session) notRequested(p workload.Pod) string {
	ns, known := s.Namespaces.Find(p.Namespace)
	why := fmt.Sprintf("neither the pods nor namespace %s ask for a template, and none selects them", ns.Name)
	if !known {
		why = fmt.Sprintf("the pods do not ask for a template, and the annotations of namespace %s are not known: --namespace-file FILE or --cluster gives them", ns.Name)
	}
	return fmt.Sprintf("nothing is injected: %s. To ask for a template, set the annotation %s: TEMPLATE", why, v1alpha1.InjectKey)
}

// notesOf returns the notes about a pod.
func notesOf(p workload.Pod, out injector.Outcome) []Note {
	var notes []Note
	for _, text := range out.Warnings {
		notes = append(notes, podNote(Warning, p, text))
	}
	if !out.Allowed {
		notes = append(notes, podNote(Refusal, p, strings.Join(out.Lines(), "\n")))
	}
	return notes
}
