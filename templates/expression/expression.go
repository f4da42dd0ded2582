package expression

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"

	"github.com/pillion-dev/pillion/templates/show"
)

// Expression is a compiled CEL expression. It is immutable.
type Expression struct {
	Place
	// typ is its static type, and typed its static type with the pod's schema.
	typ, typed *cel.Type
	program    *program
	source     string
	// ast has the expression and its places. The checker's notes on it are not kept: they take as
	// much again.
	ast *celast.AST
	// ofPod has what the expression reads that is not the same for all pods.
	ofPod []string
}

// compile checks an expression and makes its program. Its error is a mistake of the
// author, with the place in the source marked.
func (e *Environment) compile(source string, at Place) (*Expression, error) {
	checked, err := e.check(source)
	if err != nil {
		return nil, err
	}
	program, err := sharedPlanner().plan(checked.NativeRep(), e.template.Namespaced)
	if err != nil {
		return nil, errors.New(show.Plain(err.Error()))
	}
	return &Expression{Place: at, typ: checked.OutputType(), program: program, source: source, ast: celast.NewAST(checked.NativeRep().Expr(), checked.NativeRep().SourceInfo())}, nil
}

// check returns the checked expression, in which each walk over a map goes in the order of
// its keys.
func (e *Environment) check(source string) (*cel.Ast, error) {
	env, objects := e.run.env, e.run.objects
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, errors.New(explainIssues(issues, objects, source))
	}
	// The check compiles the regular expressions that are spelled out.
	if err := e.template.patterns(parsed.NativeRep().Expr()); err != nil {
		return nil, fmt.Errorf("in the expression %s: %w", show.Value(source), err)
	}
	sortRanges(parsed.NativeRep())
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, errors.New(explainIssues(issues, objects, source))
	}
	return checked, nil
}

// sortRanges wraps what comprehensions go over in a call that orders maps, unless it is written
// out as a list: CEL walks maps in Go's random order, and the same pod must give the same bytes.
func sortRanges(a *celast.AST) {
	factory := celast.NewExprFactory()
	next := celast.MaxID(a)
	fresh := func(old int64) int64 {
		next++
		if place, known := a.SourceInfo().GetOffsetRange(old); known {
			a.SourceInfo().SetOffsetRange(next, place) // for messages
		}
		return next
	}
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.ComprehensionKind || e.AsComprehension().IterRange().Kind() == celast.ListKind {
			return
		}
		walked := e.AsComprehension().IterRange()
		inner := factory.CopyExpr(walked)
		walked.SetKindCase(nil)
		walked.RenumberIDs(fresh)
		walked.SetKindCase(factory.NewCall(0, sortedFunction, inner))
	}))
}
