package lint

import (
	"context"
	"fmt"

	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates/samples"
)

// Validate adds the findings of an API server about the sample pods that get each template, and about the author's
// own pods. Results are those of [Run] for the documents and options.
func Validate(ctx context.Context, server oracle.Oracle, documents []Document, results []Result, o Options) {
	for i := range results {
		if t := results[i].template; t != nil {
			tr := &trial{linter: &linter{options: o}, document: documents[i], template: t, result: results[i]}
			tr.validate(ctx, server)
			tr.sortFindings()
			results[i] = tr.result
		}
	}
}

func (tr *trial) validate(ctx context.Context, server oracle.Oracle) {
	const rule = "server"
	bundled, _ := InjectSamples(tr.template, samples.Bundled()) // failures are reported already
	causes, err := server.ValidateAll(ctx, tr.template, bundled)
	for _, c := range causes {
		tr.cause(Finding{Severity: Error, Rule: rule}, c)
	}
	if err != nil && len(bundled) > 0 {
		tr.addAt(rule, Error, "", 0, fmt.Sprintf("the API server did not say whether pods are valid: %v", err))
		return
	}
	if len(causes) == 0 {
		tr.validateEach(ctx, server, bundled, Warning)
	}
	own, _ := InjectSamples(tr.template, tr.options.Samples)
	tr.validateEach(ctx, server, own, Error)
}

// validateEach sends each pod to the API server by itself. The namespace may forbid a bundled pod: only
// the refusal of a pod of the strictest Pod Security level is about the template.
func (tr *trial) validateEach(ctx context.Context, server oracle.Oracle, pods []oracle.Pod, severity Severity) {
	for _, pod := range pods {
		causes, err := server.Validate(ctx, tr.template, pod.After)
		f := Finding{Severity: severity, Rule: "server", Pod: pod.Name}
		for _, c := range causes {
			tr.cause(f, c)
		}
		if err != nil && (severity == Error || pod.Name == samples.Restricted) {
			f.Message = err.Error()
			tr.add(f)
		}
	}
}
