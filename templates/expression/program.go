package expression

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// program is an expression as it is evaluated.
type program struct {
	// steps counts what it costs, as the planner has it do.
	steps *interpreter.ObservableInterpretable
}

// planner makes programs. All programs share what it has. A program of [cel.Env.Program]
// has a table of all functions for itself, and keeps its environment: about 20 KiB, twenty
// times as much as its steps take.
type planner struct {
	interpreter interpreter.Interpreter
	options     []interpreter.PlannerOption
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
	provider := runtimeTypes{base.CELTypeProvider()}
	adapter := base.CELTypeAdapter()
	return &planner{
		interpreter: interpreter.NewInterpreter(functions, base.Container, provider, adapter, interpreter.NewAttributeFactory(base.Container, adapter, provider)),
		options: []interpreter.PlannerOption{
			interpreter.CustomDecoratorV2(withoutNeed), interpreter.InterruptableEval(), interpreter.Optimize(),
			interpreter.CompileRegexConstants(library.FindRegexOptimization, library.FindAllRegexOptimization, interpreter.MatchesRegexOptimization),
			interpreter.CostObserver(interpreter.CostTrackerFactory(tracker.Clone)),
		},
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

// plan makes the program of a checked expression.
func (p *planner) plan(checked *celast.AST) (*program, error) {
	made, err := p.interpreter.NewInterpretable(checked, p.options...)
	if err != nil {
		return nil, err
	}
	steps, ok := made.(*interpreter.ObservableInterpretable)
	if !ok {
		return nil, fmt.Errorf("the program is a %T, which does not count its cost", made)
	}
	return &program{steps}, nil
}

// run evaluates the program. It returns the value or why there is none, and in both cases
// what the evaluation cost.
func (p *program) run(ctx context.Context, names interpreter.Activation) (v ref.Val, cost uint64, err error) {
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
	if err := frame.SetContext(ctx, checkEvery); err != nil {
		return nil, 0, err
	}
	v = p.steps.ObserveExec(frame, func(state any) { tracker, _ = state.(*interpreter.CostTracker) })
	if failed, ok := v.(*types.Err); ok {
		return nil, 0, failed
	}
	return v, 0, nil
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

// runtimeTypes gives programs the fields of params, variables and kubernetes, whichever a template
// has: the checker has made sure that an expression reads no other.
type runtimeTypes struct{ types.Provider }

// isOurs reports whether a type is that of params, variables or kubernetes.
func isOurs(name string) bool {
	return name == paramsType || name == variablesType || name == kubernetesType
}

// FindStructType implements [types.Provider].
func (p runtimeTypes) FindStructType(name string) (*types.Type, bool) {
	if isOurs(name) {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType implements [types.Provider].
func (p runtimeTypes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if !isOurs(name) {
		return p.Provider.FindStructFieldType(name, field)
	}
	return fieldOfObject(field, cel.DynType), true
}

// fieldOfObject is a field of params or variables.
func fieldOfObject(field string, t *cel.Type) *types.FieldType {
	return &types.FieldType{
		Type:  t,
		IsSet: func(target any) bool { o, ok := target.(*object); return ok && o.has(field) },
		GetFrom: func(target any) (any, error) {
			o, ok := target.(*object)
			if !ok {
				return nil, fmt.Errorf("no such field: %s", field)
			}
			return o.get(field)
		},
	}
}
