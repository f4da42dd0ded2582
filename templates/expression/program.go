package expression

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/param"
)

// newProgram returns the program of a checked expression. All programs share the base environment and its
// functions. Patterns has the literal regular expressions. An expression that only reads a value costs a
// constant: its program does not count, because counting takes longer than reading.
func newProgram(checked *cel.Ast, patterns map[string]param.Pattern) (cel.Program, error) {
	if isRead(checked.NativeRep().Expr()) {
		return baseEnvironment().Program(checked, cel.EvalOptions(cel.OptOptimize))
	}
	options := []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostTracking(&costs{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.CostLimit(MaxExpressionCost),
		cel.InterruptCheckFrequency(checkEvery),
	}
	bound := boundCalls(checked.NativeRep().Expr(), patterns)
	return baseEnvironment().Program(checked, append(options, bound...)...)
}

// isRead reports whether an expression only reads a value, such as params.port and params.?cpuLimit.
func isRead(x celast.Expr) bool {
	switch x.Kind() {
	case celast.IdentKind, celast.LiteralKind:
		return true
	case celast.SelectKind:
		return isRead(x.AsSelect().Operand())
	case celast.CallKind:
		call := x.AsCall()
		return call.FunctionName() == operators.OptSelect && isRead(call.Args()[0])
	}
	return false
}

// isLoop reports whether an expression has a comprehension with items. Macros such as optMap have an empty
// range: they only bind a name.
func isLoop(root celast.Expr) bool {
	found := false
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		if x.Kind() == celast.ComprehensionKind {
			over := x.AsComprehension().IterRange()
			found = found || over.Kind() != celast.ListKind || over.AsList().Size() > 0
		}
	}))
	return found
}
