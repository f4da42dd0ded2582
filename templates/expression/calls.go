package expression

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/param"
)

// cel-go charges a call when it is over, and most functions by the number of items in their arguments. A
// tenant's expression could replace each character of a text by the whole text. It could compare lists that contain
// one list a thousand times, or match a regular expression of a thousand instructions. So expensive calls are
// charged for the size of their arguments before they run.

// stepsPerCost is the number of steps of such a call, or of bytes of its result, for one unit of cost.
const stepsPerCost = 50

// maxSteps bounds the steps of one call.
const maxSteps = MaxExpressionCost * stepsPerCost

// calls charges the expensive calls of one expression.
type calls struct {
	names    map[string]bool
	patterns map[string]param.Pattern
}

// boundCalls returns the options that charge the expensive calls of an expression before they run. A call that
// exceeds [maxSteps] is an error. Patterns are the literal regular expressions of the expression.
func boundCalls(root celast.Expr, patterns map[string]param.Pattern) []cel.ProgramOption {
	c := calls{names: map[string]bool{}, patterns: patterns}
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		if x.Kind() == celast.CallKind && isCounted(x.AsCall().FunctionName()) {
			c.names[x.AsCall().FunctionName()] = true
		}
	}))
	if len(c.names) == 0 {
		return nil
	}
	var trackers []interpreter.CostTrackerOption
	for name := range c.names {
		trackers = append(trackers, interpreter.OverloadCostTracker(countedName(name), func(args []ref.Val, _ ref.Val) *uint64 {
			cost := 1 + c.steps(name, args)/stepsPerCost
			return &cost
		}))
	}
	return []cel.ProgramOption{cel.CostTrackerOptions(trackers...), cel.CustomDecoratorV2(c.decorate)}
}

// isCounted reports whether calls of a function are charged before they run. cel-go's costs are enough for
// CEL's own functions, except comparisons.
func isCounted(function string) bool {
	switch function {
	case operators.Equals, operators.NotEquals, operators.In, "matches":
		return true
	}
	return implementations()[function] != nil
}

// countedName is cel-go's name of a charged call, for all types of arguments.
func countedName(function string) string { return "@counted_" + function }

// decorate implements [interpreter.InterpretableDecoratorV2].
func (c calls) decorate(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := step.(interpreter.InterpretableCall)
	if !ok || !c.names[call.Function()] || comparesWithConstant(call) {
		return step, nil
	}
	name := call.Function()
	do := implementations()[name]
	return interpreter.NewCall(call.ID(), countedName(name), countedName(name), call.Args(), func(args ...ref.Val) ref.Val {
		if c.steps(name, args) > maxSteps {
			return types.WrapErr(errTooLong)
		}
		if pattern, ok := c.pattern(name, args); ok {
			return match(name, pattern, args)
		}
		return do(args...)
	}), nil
}

// comparesWithConstant reports whether a call compares with a literal, whose length bounds the comparison.
func comparesWithConstant(call interpreter.InterpretableCall) bool {
	switch call.Function() {
	case operators.Equals, operators.NotEquals, operators.In:
		for _, arg := range call.Args() {
			if _, constant := arg.(interpreter.InterpretableConst); constant {
				return true
			}
		}
	}
	return false
}

// implementations has the library functions and the comparisons, by name.
var implementations = sync.OnceValue(func() map[string]functions.FunctionOp {
	all := map[string]functions.FunctionOp{
		operators.Equals:    func(args ...ref.Val) ref.Val { return types.Equal(args[0], args[1]) },
		operators.NotEquals: func(args ...ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) },
	}
	language, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		panic("expression: making the environment of CEL itself: " + err.Error())
	}
	for name, declared := range baseEnvironment().Functions() {
		bindings, err := declared.Bindings()
		if err != nil {
			panic("expression: reading the function " + name + ": " + err.Error())
		}
		plain := language.HasFunction(name) && name != operators.In && name != "matches"
		for _, b := range bindings {
			if b.Operator == name && !plain && !isLinear[name] {
				all[name] = operation(b)
			}
		}
	}
	return all
})

// operation returns a function of cel-go that takes its arguments as a slice.
func operation(o *functions.Overload) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		switch {
		case o.OperandTrait != 0 && !args[0].Type().HasTrait(o.OperandTrait):
			return types.MaybeNoSuchOverloadErr(args[0])
		case len(args) == 1 && o.Unary != nil:
			return o.Unary(args[0])
		case len(args) == 2 && o.Binary != nil:
			return o.Binary(args[0], args[1])
		case o.Function != nil:
			return o.Function(args...)
		}
		return types.NoSuchOverloadErr()
	}
}

// pattern returns the compiled regular expression of a call, if it is a literal.
func (c calls) pattern(function string, args []ref.Val) (param.Pattern, bool) {
	if !isMatch(function) || len(args) < 2 {
		return param.Pattern{}, false
	}
	text, _ := args[1].(types.String)
	pattern, ok := c.patterns[string(text)]
	return pattern, ok
}

func isMatch(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// match calls one of the functions with a regular expression.
func match(function string, pattern param.Pattern, args []ref.Val) ref.Val {
	text, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	switch function {
	case "matches":
		return types.Bool(pattern.MatchString(string(text)))
	case "find":
		return types.String(pattern.FindString(string(text)))
	}
	most := -1
	if len(args) > 2 {
		n, ok := args[2].(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[2])
		}
		most = int(n)
	}
	return types.NewStringList(types.DefaultTypeAdapter, pattern.FindAllString(string(text), most))
}

// steps estimates the steps of a call. It is at least the number of bytes of the result.
func (c calls) steps(function string, args []ref.Val) uint64 {
	if pattern, ok := c.pattern(function, args); ok {
		return (1 + weight(args[0])) * uint64(pattern.Instructions)
	}
	total := uint64(0)
	for _, arg := range args {
		total += weight(arg)
	}
	switch function {
	case "matches", "find", "findAll", "indexOf", "lastIndexOf", "sets.contains", "sets.equivalent", "sets.intersects":
		if len(args) > 1 {
			return total + min(sizeOf(args[0]), maxSteps)*weight(args[1])
		}
	case "distinct":
		return min(sizeOf(args[0]), maxSteps) * total / 2
	case "sort", "@sortByAssociatedKeys":
		return 16 * total
	case "join":
		if len(args) == 2 {
			return total + min(sizeOf(args[0]), maxSteps)*weight(args[1])
		}
	case "replace":
		if text, ok := args[0].(types.String); ok && len(args) > 2 {
			old, _ := args[1].(types.String)
			return total + uint64(strings.Count(string(text), string(old)))*weight(args[2])
		}
	}
	return total
}

// weight returns the steps of a walk over a value, or a number above [maxSteps].
func weight(v ref.Val) uint64 {
	w := weigher(0)
	w.add(v)
	return uint64(w)
}

type weigher uint64

// The weights of any value, and of a value that contains others.
const (
	ofValue     = 4
	ofContainer = 20
)

func (w *weigher) add(v ref.Val) {
	*w += ofValue
	switch v := v.(type) {
	case types.String:
		*w += weigher(len(v))
	case types.Bytes:
		*w += weigher(len(v))
	case *types.Optional:
		if v.HasValue() {
			w.add(v.GetValue())
		}
	case traits.Mapper:
		for it := v.Iterator(); *w <= maxSteps && it.HasNext() == types.True; {
			key := it.Next()
			*w += ofContainer
			w.add(key)
			w.add(v.Get(key))
		}
	case traits.Lister:
		*w += ofContainer
		if n := sizeOf(v); n > maxSteps/ofValue { // a walk over a list of lists allocates
			*w += maxSteps
			return
		}
		for it := v.Iterator(); *w <= maxSteps && it.HasNext() == types.True; {
			w.add(it.Next())
		}
	}
}
