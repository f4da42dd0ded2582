package templates

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
)

// The bounds on what rendering one template for one pod may cost. Costs are in
// CEL's own unit, as in Kubernetes' admission policies.
const (
	// MaxExpressionCost is for one evaluation of one expression.
	MaxExpressionCost = 300_000
	// MaxRenderCost is for all evaluations and repetitions together.
	MaxRenderCost = 1_000_000
	// MaxRenderedBytes is the size of the fragment as JSON, about.
	MaxRenderedBytes = 256 << 10
	// MaxIterations is how often one $for repeats its item.
	MaxIterations = 1_000
	// iterationCost is what one repetition costs besides its expressions.
	iterationCost = 50
)

// expression is a compiled CEL expression.
type expression struct {
	at   *manifest.Path
	line int
	// out is its static type, and typed its static type with the pod's schema.
	out, typed *cel.Type
	program    cel.Program
	// source is its text, and info has the place of each of its nodes in the text.
	source string
	info   *celast.SourceInfo
	reads  reads
}

// compileExpression compiles CEL. Its error is a *failure at the place at.
func compileExpression(env *cel.Env, objects *provider, source string, at *manifest.Path, line int) (*expression, error) {
	checked, err := checkExpression(env, objects, source)
	if err != nil {
		return nil, &failure{at: at, line: line, message: err.Error()}
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(&costs{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)), cel.CostLimit(MaxExpressionCost))
	if err != nil {
		return nil, &failure{at: at, line: line, message: show.Plain(err.Error())}
	}
	return &expression{at: at, line: line, out: checked.OutputType(), program: program, source: source, info: checked.NativeRep().SourceInfo(), reads: readsOf(checked.NativeRep())}, nil
}

func checkExpression(env *cel.Env, objects *provider, source string) (*cel.Ast, error) {
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, errors.New(explainIssues(issues, objects, source))
	}
	noteWholeParams(checked, objects)
	unordered := unorderedRanges(checked)
	if len(unordered) == 0 {
		return checked, nil
	}
	// The check changed the expression. Parsing again gives the same ids.
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, errors.New(explainIssues(issues, objects, source))
	}
	sortRanges(parsed.NativeRep(), unordered)
	checked, issues = env.Check(parsed)
	if issues.Err() != nil {
		return nil, errors.New(explainIssues(issues, objects, source))
	}
	return checked, nil
}

// unorderedRanges returns the ids of the ranges of comprehensions that are not known to
// be lists.
func unorderedRanges(checked *cel.Ast) map[int64]bool {
	ids := map[int64]bool{}
	a := checked.NativeRep()
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.ComprehensionKind {
			if id := e.AsComprehension().IterRange().ID(); a.GetType(id).Kind() != types.ListKind {
				ids[id] = true
			}
		}
	}))
	return ids
}

// sortRanges wraps the ranges with the given ids in a call that orders maps:
// CEL walks them in Go's random order, and the same pod must give the same bytes.
func sortRanges(a *celast.AST, ids map[int64]bool) {
	factory := celast.NewExprFactory()
	next := celast.MaxID(a)
	fresh := func(int64) int64 { next++; return next }
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.ComprehensionKind {
			return
		}
		walked := e.AsComprehension().IterRange()
		if !ids[walked.ID()] {
			return
		}
		inner := factory.CopyExpr(walked)
		inner.RenumberIDs(fresh)
		walked.SetKindCase(factory.NewCall(fresh(0), sortedFunction, inner))
	}))
}

// noteWholeParams counts every parameter as used where params is read as a whole.
func noteWholeParams(checked *cel.Ast, objects *provider) {
	whole := 0
	isParams := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == paramsName }
	celast.PostOrderVisit(checked.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch {
		case isParams(e):
			whole++
		case e.Kind() == celast.SelectKind && isParams(e.AsSelect().Operand()):
			whole--
		case e.Kind() == celast.CallKind && e.AsCall().FunctionName() == "_?._" && isParams(e.AsCall().Args()[0]):
			whole--
		}
	}))
	if whole > 0 {
		for name := range objects.params {
			objects.used[name] = true
		}
	}
}

var (
	undefinedField     = regexp.MustCompile(`^undefined field '([^']*)'`)
	undeclaredName     = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	reservedIdentifier = regexp.MustCompile(`reserved identifier: namespace`)
	shellVariable      = regexp.MustCompile(`^\s*[A-Z_][A-Z0-9_]*\s*$`)
)

// explainIssues writes what is wrong with an expression in one line, each issue
// with its place marked.
func explainIssues(issues *cel.Issues, objects *provider, source string) string {
	var lines []string
	for _, issue := range issues.Errors() {
		if line := explainIssue(issue, objects, source); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

func explainIssue(issue *cel.Error, objects *provider, source string) string {
	message := strings.ReplaceAll(issue.Message, " (in container '')", "")
	offset := offsetOf(source, issue.Location)
	switch {
	case undefinedField.MatchString(message):
		message = explainField(undefinedField.FindStringSubmatch(message)[1], objects)
		// CEL's place of a selection is its dot.
		offset += len(source[offset:]) - len(strings.TrimLeft(source[offset:], ".? \t\n"))
	case undeclaredName.MatchString(message):
		name := undeclaredName.FindStringSubmatch(message)[1]
		if shellVariable.MatchString(source) {
			message += fmt.Sprintf("; for the literal text ${%s} write $${%s}", source, source)
		} else {
			message += explainName(name)
		}
	case reservedIdentifier.MatchString(message):
		message += "; the namespace is namespaceObject"
	case strings.Contains(message, "expected type"):
		message += "; for a map or list of mixed types wrap its values in dyn()"
	}
	return show.Plain(fmt.Sprintf("in the expression %s: %s", marked(source, offset), message))
}

// explainName ends the message about a name that is neither visible nor a function.
func explainName(name string) string {
	if name == eachName {
		return "; it is there in items with $each"
	}
	if near, ok := nearest.Name(name, append(functionNames(), visibleNames...)); ok {
		return "; did you mean " + near + "?"
	}
	return nearest.Hint(name, visibleNames)
}

// functionNames are what expressions may call.
var functionNames = sync.OnceValue(func() []string {
	var names []string
	for name := range baseEnvironment().Functions() {
		if first := name[0]; (first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z') && !strings.Contains(name, "@") {
			names = append(names, name)
		}
	}
	return slices.Clip(names)
})

func explainField(name string, objects *provider) string {
	switch of := objects.missed[name]; of {
	case variablesType:
		return fmt.Sprintf("no variable %s is declared before this%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(objects.variables))))
	case paramsType:
		return fmt.Sprintf("no parameter %s is declared%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(objects.params))))
	default:
		fields, _ := objects.fields(of)
		return fmt.Sprintf("%s has no field %s%s", strings.ReplaceAll(of, "/", "."), name, nearest.Hint(name, slices.Sorted(maps.Keys(fields))))
	}
}

// mark stands before the place in an expression that a message is about.
const mark = ">>>"

// marked shows an expression, or the part of a long one around offset, with a
// mark at that byte.
func marked(source string, offset int) string {
	before, after := []rune(source[:offset]), []rune(source[offset:])
	const around = show.MaxValue / 2
	start, end := "", ""
	if len(before) > around {
		before, start = before[len(before)-around:], "…"
	}
	if len(after) > around {
		after, end = after[:around], "…"
	}
	return strconv.Quote(strings.TrimLeft(start+string(before), " \n") + mark + strings.TrimRight(string(after)+end, " \n"))
}

// offsetOf returns the byte in source that a place of CEL's stands for: lines
// count from 1, columns in code points from 0. It is 0 if there is no such place.
func offsetOf(source string, at common.Location) int {
	offset := 0
	for range at.Line() - 1 {
		end := strings.IndexByte(source[offset:], '\n')
		if end < 0 {
			return 0
		}
		offset += end + 1
	}
	column := 0
	for i := range source[offset:] {
		if column == at.Column() {
			return offset + i
		}
		column++
	}
	if at.Column() == column {
		return len(source)
	}
	return 0
}

// explain adds to an error of an evaluation where in the expression it arose.
func (e *expression) explain(err error) string {
	message := err.Error()
	var failed *types.Err
	if !errors.As(err, &failed) {
		return message
	}
	if _, known := e.info.GetOffsetRange(failed.NodeID()); !known {
		return message
	}
	offset := offsetOf(e.source, e.info.GetStartLocation(failed.NodeID()))
	return message + ", in the expression " + marked(e.source, offset)
}

// evaluate runs an expression and adds its cost to the render's. Its error is a
// *failure or a *TooExpensiveError.
func (e *expression) evaluate(s *scope) (ref.Val, error) {
	r := s.render
	// Reading a variable evaluates it inside another expression, which may catch
	// its error; a bound that is passed must end that one too.
	if r.fatal != nil {
		return nil, r.fatal
	}
	v, details, err := e.program.Eval(s)
	if r.fatal != nil {
		return nil, r.fatal
	}
	if cost := details.ActualCost(); cost != nil {
		if err := r.pay(*cost, e.at, e.line); err != nil {
			return nil, err
		}
	}
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return nil, r.tooExpensive(e.at, e.line, fmt.Sprintf("an expression costs more than %d", MaxExpressionCost))
	case errors.Is(err, errTooLarge):
		return nil, r.tooExpensive(e.at, e.line, show.Plain(err.Error()))
	case err != nil:
		return nil, &failure{at: e.at, line: e.line, message: show.Plain(e.explain(err))}
	}
	return v, nil
}

// pay adds to the render's cost.
func (r *renderer) pay(cost uint64, at *manifest.Path, line int) error {
	if r.cost += cost; r.cost > MaxRenderCost {
		return r.tooExpensive(at, line, fmt.Sprintf("the expressions together cost more than %d", MaxRenderCost))
	}
	return nil
}

// tooExpensive ends the render.
func (r *renderer) tooExpensive(at *manifest.Path, line int, message string) error {
	r.fatal = &TooExpensiveError{Template: r.template.name, Path: at.String(), Line: line, Message: message}
	return r.fatal
}

// condition runs an expression that gives a boolean.
func (e *expression) condition(s *scope) (bool, error) {
	v, err := e.evaluate(s)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, &failure{at: e.at, line: e.line, message: fmt.Sprintf("the condition gives %s; want true or false", celKind(v.Type().TypeName()))}
	}
	return bool(b), nil
}

// scope is what an expression sees in one render: the render's values and what
// the $each and $for around it bind. It implements [interpreter.Activation].
type scope struct {
	render *renderer
	up     *scope
	name   string
	value  ref.Val
}

func (s *scope) bind(name string, value ref.Val) *scope {
	return &scope{render: s.render, up: s, name: name, value: value}
}

// ResolveName implements [interpreter.Activation].
func (s *scope) ResolveName(name string) (any, bool) {
	for b := s; b != nil; b = b.up {
		if b.value != nil && b.name == name {
			return b.value, true
		}
	}
	r := s.render
	switch name {
	case podName:
		return r.pod, true
	case namespaceName:
		return r.namespace, true
	case paramsName:
		return r.params, true
	case variablesName:
		return r.variables, true
	case valuesName:
		return r.template.values, true
	}
	return nil, false
}

// Parent implements [interpreter.Activation].
func (s *scope) Parent() interpreter.Activation { return nil }
