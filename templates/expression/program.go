package expression

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/param"
)

// newProgram returns the program of a checked expression. All programs are those of the base environment,
// and share its functions. Patterns has the regular expressions that the expression spells out.
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

// isLoop reports whether an expression goes over something. What a macro such as optMap goes over
// is an empty list: it only binds a name.
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
