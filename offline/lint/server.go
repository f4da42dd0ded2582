package lint

import (
	"context"
	"fmt"

	"github.com/pillion-dev/pillion/offline/oracle"
	"github.com/pillion-dev/pillion/offline/samples"
)

// Validate adds what an API server says of the sample pods that get each template, and of the author's own
// pods. Results are those of [Run] for the documents and options.
func Validate(ctx context.Context, server oracle.Oracle, documents []Document, results []Result, o Options) {
	for i := range results {
		if t := results[i].template; t != nil {
			j := &judged{linter: &linter{options: o}, document: documents[i], template: t, result: results[i]}
			j.validate(ctx, server)
			j.byLine()
			results[i] = j.result
		}
	}
}

func (j *judged) validate(ctx context.Context, server oracle.Oracle) {
	const rule = "server"
	bundled, _ := InjectSamples(j.template, samples.Bundled()) // what fails is reported already
	causes, err := server.ValidateAll(ctx, j.template, bundled)
	for _, c := range causes {
		j.cause(Finding{Severity: Error, Rule: rule}, c)
	}
	if err != nil && len(bundled) > 0 {
		j.place(rule, Error, "", 0, fmt.Sprintf("the API server did not say whether pods are valid: %v", err))
		return
	}
	if len(causes) == 0 {
		j.validateEach(ctx, server, bundled, Warning)
	}
	own, _ := InjectSamples(j.template, j.options.Samples)
	j.validateEach(ctx, server, own, Error)
}

// validateEach asks the API server about each pod by itself. A bundled pod may be refused for what the namespace is: only
// one that keeps to the strictest Pod Security level says something of the template.
func (j *judged) validateEach(ctx context.Context, server oracle.Oracle, pods []oracle.Pod, severity Severity) {
	for _, pod := range pods {
		causes, err := server.Validate(ctx, j.template, pod.After)
		f := Finding{Severity: severity, Rule: "server", Pod: pod.Name}
		for _, c := range causes {
			j.cause(f, c)
		}
		if err != nil && (severity == Error || pod.Name == samples.Restricted) {
			f.Message = err.Error()
			j.add(f)
		}
	}
}
