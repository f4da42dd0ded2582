package expression

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// program is an expression as it is evaluated.
type program struct {
	steps interpreter.InterpretableV2
	// counted is the same as steps, if what an evaluation costs is counted. It is nil where it is
	// known before: price.
	counted *interpreter.ObservableInterpretable
	price   uint64
	// loops says that it goes over something. Only a loop asks whether its time is up.
	loops bool
}

// planner makes programs. All programs share what it has. A program of [cel.Env.Program]
// has a table of all functions for itself, and keeps its environment: about 20 KiB, twenty
// times as much as its steps take.
type planner struct {
	interpreter interpreter.Interpreter
	options     []interpreter.PlannerOption
	// regexps compiles the regular expressions that are spelled out; charged also has those of a
	// tenant cost what their programs take.
	regexps, charged interpreter.PlannerOption
	// counting has a program count what it costs.
	counting interpreter.PlannerOption
}

var sharedPlanner = sync.OnceValue(func() *planner {
	p, err := newPlanner()
	if err != nil {
		panic(fmt.Sprintf("expression: making the planner of programs: %v", err))
	}
	return p
})

func newPlanner() (*planner, error) {
	base := baseEnvironment()
	functions := interpreter.NewDispatcher()
	for _, declared := range base.Functions() {
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		if err := functions.Add(bindings...); err != nil {
			return nil, err
		}
	}
	tracker, err := costTracker(base)
	if err != nil {
		return nil, err
	}
	provider := base.CELTypeProvider()
	adapter := base.CELTypeAdapter()
	return &planner{
		interpreter: interpreter.NewInterpreter(functions, base.Container, provider, adapter, interpreter.NewAttributeFactory(base.Container, adapter, provider)),
		options: []interpreter.PlannerOption{
			interpreter.CustomDecoratorV2(withoutNeed), interpreter.InterruptableEval(), interpreter.Optimize(),
		},
		regexps:  interpreter.CompileRegexConstants(library.FindRegexOptimization, library.FindAllRegexOptimization, interpreter.MatchesRegexOptimization),
		charged:  interpreter.CompileRegexConstants(charged("find"), charged("findAll"), charged("matches")),
		counting: interpreter.CostObserver(interpreter.CostTrackerFactory(tracker.Clone)),
	}, nil
}

// costTracker returns the tracker of costs with what the libraries of an environment say
// of their functions. Only a program takes that from them.
func costTracker(env *cel.Env) (*interpreter.CostTracker, error) {
	ast, issues := env.Compile("true")
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	var made *interpreter.CostTracker
	_, err := env.Program(ast, cel.EvalOptions(cel.OptTrackCost), cel.CostTracking(&costs{}), cel.CostLimit(MaxCost),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false), func(t *interpreter.CostTracker) error { made = t; return nil }))
	return made, err
}

// plan makes the program of a checked expression. To count takes longer than to evaluate, so a
// program counts only where its cost depends on the pod.
func (p *planner) plan(checked *celast.AST, namespaced bool) (*program, error) {
	price, known := priceOf(checked.Expr())
	options := slices.Clip(p.options)
	if namespaced {
		options = append(options, p.charged)
	} else {
		options = append(options, p.regexps)
	}
	if !known {
		options = append(options, p.counting, repetitionsOf(checked.Expr()), p.counting)
	}
	steps, err := p.interpreter.NewInterpretable(checked, options...)
	if err != nil {
		return nil, err
	}
	counted, counts := steps.(*interpreter.ObservableInterpretable)
	if counts == known {
		return nil, fmt.Errorf("the program is a %T; it counts its cost: %t", steps, counts)
	}
	return &program{steps: steps, counted: counted, price: price, loops: loops(checked.Expr())}, nil
}

// repetitionsOf has the tracker of costs forget the values of each repetition of a loop. By itself
// it keeps some of them until the loop ends, and looks through all that it keeps at each step. The
// steps of the loops must be counted before, and what this makes of them afterwards.
func repetitionsOf(root celast.Expr) interpreter.PlannerOption {
	conditions := map[int64]int64{}
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		if x.Kind() == celast.ComprehensionKind {
			loop := x.AsComprehension()
			conditions[loop.LoopStep().ID()] = loop.LoopCondition().ID()
		}
	}))
	return interpreter.CustomDecoratorV2(func(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if condition, ok := conditions[step.ID()]; ok {
			return &repetition{InterpretableV2: step, condition: condition}, nil
		}
		return step, nil
	})
}

// repetition is the step of a loop. To the tracker of costs it is a call whose value goes by the name of
// the loop's condition. The condition is the first value of a repetition that the tracker keeps, and it
// forgets with an argument all that came after it: this condition, and the repetition before.
type repetition struct {
	interpreter.InterpretableV2
	condition int64
}

// ID implements [interpreter.InterpretableV2].
func (r *repetition) ID() int64 { return r.condition }

// Function implements [interpreter.InterpretableCall].
func (r *repetition) Function() string { return repetitionFunction }

// OverloadID implements [interpreter.InterpretableCall].
func (r *repetition) OverloadID() string { return "" }

// Args implements [interpreter.InterpretableCall].
func (r *repetition) Args() []interpreter.InterpretableV2 {
	return []interpreter.InterpretableV2{r, r}
}

// repetitionFunction is no function that an expression can call.
const repetitionFunction = "@repetition"

// prices are what operators and functions cost at most that look at no more than one of their
// values, whatever its size.
var prices = map[string]uint64{
	// They only choose.
	operators.LogicalAnd: 0, operators.LogicalOr: 0, operators.Conditional: 0, "or": 0, "orValue": 0,
	// Steps. One that goes on from the value of a call costs 2.
	operators.Index: 2, operators.OptIndex: 2, operators.OptSelect: 2,
	operators.LogicalNot: 1, "dyn": 1, "size": 1, "hasValue": 1, "value": 1, "optional.of": 1, "optional.none": 1, "optional.ofNonZeroValue": 1,
}

// priceOf returns what an expression costs at most, in CEL's unit, and whether that is known
// before it is evaluated: it steps to values of the pod, compares them with words that it spells
// out, and chooses, but goes over nothing and makes nothing out of what it finds.
func priceOf(x celast.Expr) (price uint64, known bool) {
	switch x.Kind() {
	case celast.LiteralKind:
		return textCost(x.AsLiteral()), true
	case celast.IdentKind:
		price = 1
	case celast.SelectKind:
		price = 2
	case celast.ListKind:
		price = common.ListCreateBaseCost
	case celast.MapKind:
		price = common.MapCreateBaseCost
	case celast.CallKind:
		call := x.AsCall()
		if price, known = prices[call.FunctionName()]; !known {
			if !isComparison(call.FunctionName()) || !slices.ContainsFunc(call.Args(), isWord) {
				return 0, false
			}
			price = 1
		}
	default:
		return 0, false
	}
	for _, child := range childrenOf(x) {
		more, known := priceOf(child)
		if !known {
			return 0, false
		}
		price += more
	}
	return price, true
}

func isComparison(function string) bool {
	return function == operators.Equals || function == operators.NotEquals
}

// isWord reports whether an expression is a literal.
func isWord(x celast.Expr) bool { return x.Kind() == celast.LiteralKind }

// loops reports whether an expression goes over something. What a macro such as optMap goes over
// is an empty list: it only binds a name.
func loops(root celast.Expr) bool {
	found := false
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		if x.Kind() == celast.ComprehensionKind {
			over := x.AsComprehension().IterRange()
			found = found || over.Kind() != celast.ListKind || over.AsList().Size() > 0
		}
	}))
	return found
}

// run evaluates the program. It returns the value or why there is none, and in both cases
// what the evaluation cost.
func (p *program) run(ctx context.Context, names interpreter.Activation) (v ref.Val, cost uint64, err error) {
	cost = p.price
	var tracker *interpreter.CostTracker
	defer func() {
		if tracker != nil {
			cost = tracker.ActualCost()
		}
		switch r := recover().(type) {
		case nil:
		case interpreter.EvalCancelledError:
			err = r
		default:
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	frame, err := interpreter.NewExecutionFrame(names)
	if err != nil {
		return nil, 0, err
	}
	defer frame.Close()
	if p.loops { // the library makes a context of this one, which costs as much as a short evaluation
		if err := frame.SetContext(ctx, checkEvery); err != nil {
			return nil, 0, err
		}
	}
	if p.counted != nil {
		v = p.counted.ObserveExec(frame, func(state any) { tracker, _ = state.(*interpreter.CostTracker) })
	} else {
		v = p.steps.Exec(frame)
	}
	if failed, ok := v.(*types.Err); ok {
		return nil, cost, failed
	}
	return v, cost, nil
}

// withoutNeed has or() and orValue() of an optional evaluate their argument only where the
// optional has no value. CEL's library of optionals does so, too, and gives it to programs
// of [cel.Env.Program] alone.
func withoutNeed(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := step.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return step, nil
	}
	switch name, overload := call.Function(), call.OverloadID(); {
	case name == "or" && (overload == "" || overload == "optional_or_optional"):
		return &alternative{id: call.ID(), optional: call.Args()[0], otherwise: call.Args()[1]}, nil
	case name == "orValue" && (overload == "" || overload == "optional_orValue_value"):
		return &alternative{id: call.ID(), optional: call.Args()[0], otherwise: call.Args()[1], value: true}, nil
	}
	return step, nil
}

// alternative is a call of or(), or of orValue() if value is set.
type alternative struct {
	id                  int64
	optional, otherwise interpreter.InterpretableV2
	value               bool
}

// ID implements [interpreter.InterpretableV2].
func (a *alternative) ID() int64 { return a.id }

// Eval implements [interpreter.InterpretableV2].
func (a *alternative) Eval(names interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(names))
}

// Exec implements [interpreter.InterpretableV2].
func (a *alternative) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	first := a.optional.Exec(frame)
	switch optional, ok := first.(*types.Optional); {
	case types.IsUnknownOrError(first):
		return first
	case !ok:
		return types.NoSuchOverloadErr()
	case !optional.HasValue():
		return a.otherwise.Exec(frame)
	case a.value:
		return optional.GetValue()
	}
	return first
}
