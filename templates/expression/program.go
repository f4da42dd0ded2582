package expression

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
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
