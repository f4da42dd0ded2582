package expression

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/param"
)

// newProgram returns the program of a checked expression. All programs share the base environment and its
// functions. Patterns has the literal regular expressions.
func newProgram(checked *cel.Ast, patterns map[string]param.Pattern) (cel.Program, error) {
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

// newReadProgram returns the program of an expression that only reads a value. It does not count the cost of a
// run, because counting takes longer than reading.
func newReadProgram(checked *cel.Ast) (cel.Program, error) {
	return baseEnvironment().Program(checked, cel.EvalOptions(cel.OptOptimize))
}

// readCost returns the cost of an expression that only reads a value, such as params.port and params.?cpuLimit: one
// for each step of its path. It returns 0 for any other expression.
func readCost(x celast.Expr) uint64 {
	var operand celast.Expr
	switch x.Kind() {
	case celast.IdentKind, celast.LiteralKind:
		return 1
	case celast.SelectKind:
		operand = x.AsSelect().Operand()
	case celast.CallKind:
		if call := x.AsCall(); call.FunctionName() == operators.OptSelect {
			operand = call.Args()[0]
		}
	}
	if operand == nil {
		return 0
	}
	if cost := readCost(operand); cost > 0 {
		return cost + 1
	}
	return 0
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
