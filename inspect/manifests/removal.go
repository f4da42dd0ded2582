package manifests

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Uninject removes the injected parts from every pod of the file. The report has the notes also if there is an error.
func Uninject(file string, documents []workload.Document) (Report, error) {
	var report Report
	for _, d := range documents {
		r := Result{Before: d}
		var err error
		r.After, r.Pods, err = ChangePods(file, d, func(p workload.Pod) (map[string]any, error) {
			pod, notes := uninjectPod(p)
			for _, n := range notes {
				report.IsRefused = report.IsRefused || n.Severity == Failure
			}
			report.Notes = append(report.Notes, notes...)
			if pod == nil {
				return p.Object, nil
			}
			r.IsChanged = true
			return pod, nil
		})
		if err != nil {
			return report, err
		}
		report.Results = append(report.Results, r)
	}
	return report, nil
}

// uninjectPod returns the pod without its injected parts, or nil if it stays as it is.
func uninjectPod(p workload.Pod) (map[string]any, []Note) {
	rec, err := record.Parse(p.Object)
	switch {
	case err != nil:
		return nil, []Note{podNote(Failure, p, fmt.Sprintf("the record of what was injected cannot be read: %v", err))}
	case rec.Empty() && len(rec.Untrue(p.Object)) > 0:
		return rec.Base(p.Object), []Note{podNote(Warning, p, fmt.Sprintf("it has no annotation %s, so it was not injected: only Pillion's labels are removed", v1alpha1.StatusKey))}
	case rec.Empty():
		return nil, []Note{podNote(Warning, p, fmt.Sprintf("it has no annotation %s, so it was not injected and stays as it is", v1alpha1.StatusKey))}
	}
	pod, warnings := rec.Uninject(p.Object)
	var notes []Note
	for _, text := range warnings {
		notes = append(notes, podNote(Warning, p, text))
	}
	return pod, notes
}
