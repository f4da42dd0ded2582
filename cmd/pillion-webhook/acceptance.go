package main

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/samples"
)

// errNotAsked means that Pillion asks no API server about templates.
var errNotAsked = errors.New("no API server is asked: Pillion has no namespace in which it may create pods by dry run (enforcement=None). To ask with your own rights: pillion lint FILE --server")

// templateOracle finds out whether pods can have a template that compiles. Without a function that creates
// pods it asks no API server.
type templateOracle struct{ oracle.Oracle }

// templateOracle returns the oracle of the guard and of the writer of statuses.
func (r *replica) templateOracle() templateOracle {
	if !r.settings.Proves() {
		return templateOracle{}
	}
	return templateOracle{oracle.Oracle{Create: clientset.DryRunPod(r.config, r.settings.Namespaces.Proof)}}
}

// problems returns why no pod can have a template: Pillion cannot merge it into any, or the API server
// calls all sample pods that get it invalid. The error says why that is not known.
func (o templateOracle) problems(ctx context.Context, d templates.Document, t *templates.Template) ([]templates.Problem, error) {
	pods, err := lint.InjectSamples(t, samples.Bundled())
	switch {
	case err != nil:
		path, line := templates.Place(d, "spec", "inject")
		return []templates.Problem{{Path: path, Line: line, Message: err.Error()}}, nil
	case o.Create == nil:
		return nil, errNotAsked
	}
	causes, err := o.ValidateAll(ctx, t, pods)
	var problems []templates.Problem
	for _, c := range causes {
		problems = append(problems, c.Problem(d))
	}
	return problems, err
}

// acceptance is for the condition Accepted.
func (o templateOracle) acceptance(ctx context.Context, t *templates.Template) metav1.Condition {
	problems, err := o.problems(ctx, templates.Document{}, t)
	switch {
	case errors.Is(err, oracle.ErrNoPod), errors.Is(err, errNotAsked):
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: store.NotAsked, Message: err.Error()}
	case err != nil:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: store.NoAnswer, Message: err.Error()}
	case len(problems) > 0:
		refusal := templates.CompileError{Template: t.Name(), Problems: problems}
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: store.Invalid, Message: refusal.Error()}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: store.Valid, Message: "The API server accepts a sample pod that gets the template."}
}
