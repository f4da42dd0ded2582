package main

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/offline/oracle"
	"github.com/pillion-dev/pillion/offline/samples"
	"github.com/pillion-dev/pillion/templates"
)

// newOracle returns an oracle that creates pods in a namespace by dry run. What the API server warns of
// the sample pods is for nobody.
func newOracle(config *rest.Config, namespace, prefix string) oracle.Oracle {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	create := clientset.CreatePod(clientset.NewOrDie(config), namespace)
	return oracle.Oracle{Prefix: prefix, Create: func(ctx context.Context, pod map[string]any) error {
		return rights.Named(create(ctx, pod))
	}}
}

// judge is what a replica knows of the API server's judgement of templates.
type judge struct {
	oracle oracle.Oracle
	prefix string
	// unable says why the API server is not asked, "" if it is.
	unable string
}

func (r *replica) judge() judge {
	j := judge{prefix: r.c.Prefix}
	if !r.c.proves() {
		j.unable = "Pillion has no namespace in which it may create pods by dry run (enforcement.mode=Manual). To ask with your own rights: pillion lint FILE --server"
		return j
	}
	j.oracle = newOracle(r.config, r.c.ProofNamespace, r.c.Prefix)
	return j
}

// causes returns why the API server calls all sample pods that get a template invalid.
func (j judge) causes(ctx context.Context, t *templates.Template) ([]oracle.Cause, error) {
	return j.oracle.Review(ctx, t, lint.Injected(t, samples.Bundled(), j.prefix))
}

// invalid is for the guard. It returns nothing where the API server cannot be asked.
func (j judge) invalid(ctx context.Context, d templates.Document, t *templates.Template) []templates.Problem {
	if j.unable != "" {
		return nil
	}
	causes, _ := j.causes(ctx, t)
	var problems []templates.Problem
	for _, c := range causes {
		problems = append(problems, c.Problem(d))
	}
	return problems
}

// acceptance is for the condition Accepted.
func (j judge) acceptance(ctx context.Context, t *templates.Template) metav1.Condition {
	if j.unable != "" {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: store.NotAsked, Message: j.unable}
	}
	causes, err := j.causes(ctx, t)
	switch {
	case errors.Is(err, oracle.ErrNoPod):
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: store.NotAsked, Message: err.Error()}
	case err != nil:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: store.NoAnswer, Message: err.Error()}
	case len(causes) == 0:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: store.Valid, Message: "The API server accepts a sample pod that gets the template."}
	}
	mistakes := templates.CompileError{Template: t.Name()}
	for _, c := range causes {
		mistakes.Problems = append(mistakes.Problems, c.Problem(templates.Document{}))
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: store.Invalid, Message: mistakes.Error()}
}
