package expression

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/show"
)

// Expression is a compiled CEL expression. It is immutable.
type Expression struct {
	Place
	// typ is its static type, typed its static type with the pod's schema.
	typ, typed *cel.Type
	program    cel.Program
	// readCost is the cost of an expression that only reads a value, 0 for any other.
	readCost uint64
	// loops is set for an expression with a comprehension. Only such an expression takes long, and stops with
	// the context.
	loops  bool
	source string
	// ast has the expression and its positions, without the checker's annotations, which would double its size.
	ast *celast.AST
}

// compile checks an expression and compiles its program. Its error is the author's mistake, with the position
// in the source marked.
func (e *Environment) compile(source string, at Place) (*Expression, error) {
	checked, patterns, err := e.check(source)
	if err != nil {
		return nil, err
	}
	root := checked.NativeRep().Expr()
	cost := readCost(root)
	var program cel.Program
	if cost > 0 {
		program, err = newReadProgram(checked)
	} else {
		program, err = newProgram(checked, patterns)
	}
	if err != nil {
		return nil, errors.New(show.Plain(err.Error()))
	}
	return &Expression{
		Place: at, typ: checked.OutputType(), program: program, readCost: cost, loops: isLoop(root), source: source,
		ast: celast.NewAST(root, checked.NativeRep().SourceInfo()),
	}, nil
}

// check returns the checked expression, in which each walk over a map is ordered by key, and the literal
// regular expressions.
func (e *Environment) check(source string) (*cel.Ast, map[string]param.Pattern, error) {
	env, objects := e.run.env, e.run.objects
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, nil, errors.New(explainIssues(issues, objects, source))
	}
	patterns, err := e.template.patterns(parsed.NativeRep().Expr())
	if err != nil {
		return nil, nil, fmt.Errorf("in the expression %s: %s", show.Value(source), show.Plain(err.Error()))
	}
	e.rewrite(parsed.NativeRep())
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, nil, errors.New(explainIssues(issues, objects, source))
	}
	return checked, patterns, nil
}

// patterns compiles the literal regular expressions of an expression. It returns an error if one exceeds the
// template's bounds. A template of a namespace may have only literal ones.
func (t *Template) patterns(root celast.Expr) (map[string]param.Pattern, error) {
	found := map[string]param.Pattern{}
	var wrong error
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		if x.Kind() != celast.CallKind || !isMatch(x.AsCall().FunctionName()) || wrong != nil {
			return
		}
		name, args := x.AsCall().FunctionName(), x.AsCall().Args()
		if !x.AsCall().IsMemberFunction() && len(args) > 0 {
			args = args[1:]
		}
		if len(args) == 0 {
			return // the check reports it
		}
		text, isText := types.String(""), args[0].Kind() == celast.LiteralKind
		if isText {
			text, isText = args[0].AsLiteral().(types.String)
		}
		switch {
		case t.Patterns.Namespaced && name == "findAll":
			wrong = errors.New("a template of a namespace cannot call findAll, which searches a text many times; find gives the first match")
		case t.Patterns.Namespaced && !isText:
			wrong = fmt.Errorf("the regular expression of %s is not a literal text; a template of a namespace can use only literal ones", name)
		case isText:
			if found[string(text)], wrong = t.Patterns.Compile(string(text)); wrong != nil {
				wrong = fmt.Errorf("the text in %s %w", name, wrong)
			}
		}
	}))
	return found, wrong
}

// rewrite wraps two kinds of values in calls. It sorts the operands of comprehensions, except list literals:
// CEL walks maps in Go's random order, and the same pod must give the same bytes. It also makes variables plain
// values, because cel-go does not unwrap an optional in the middle of a path such as variables.labels.?app.
func (e *Environment) rewrite(a *celast.AST) {
	factory := celast.NewExprFactory()
	next := celast.MaxID(a)
	fresh := func(old int64) int64 {
		next++
		if place, known := a.SourceInfo().GetOffsetRange(old); known {
			a.SourceInfo().SetOffsetRange(next, place) // for messages
		}
		return next
	}
	wrap := func(x celast.Expr, function string) {
		inner := factory.CopyExpr(x)
		x.SetKindCase(nil)
		x.RenumberIDs(fresh)
		x.SetKindCase(factory.NewCall(0, function, inner))
	}
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(x celast.Expr) {
		switch x.Kind() {
		case celast.ComprehensionKind:
			if over := x.AsComprehension().IterRange(); over.Kind() != celast.ListKind {
				wrap(over, sortedFunction)
			}
		case celast.SelectKind:
			if on := x.AsSelect().Operand(); !isTest(x) && on.Kind() == celast.IdentKind && on.AsIdent() == variablesName && e.mayBeOptional(x.AsSelect().FieldName()) {
				wrap(x, valueFunction)
			}
		}
	}))
}

// mayBeOptional reports whether the value of a variable may be an optional.
func (e *Environment) mayBeOptional(variable string) bool {
	value := e.names.variables[variable]
	return value != nil && (isOptional(value.typ) || value.typ.Kind() == types.DynKind)
}
