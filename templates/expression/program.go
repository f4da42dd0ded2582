package expression

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// runtimeEnvironment is the environment of all programs. Environments of templates only check:
// a program keeps its environment in memory.
var runtimeEnvironment = sync.OnceValue(func() *cel.Env {
	env, err := baseEnvironment().Extend(cel.CustomTypeProvider(runtimeTypes{baseEnvironment().CELTypeProvider()}))
	if err != nil {
		panic(fmt.Sprintf("expression: making the environment of programs: %v", err))
	}
	return env
})

// newProgram makes the program of a checked expression.
func newProgram(checked *cel.Ast) (cel.Program, error) {
	return runtimeEnvironment().Program(checked, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(&costs{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)), cel.CostLimit(MaxCost), cel.InterruptCheckFrequency(checkEvery))
}

// run evaluates the expression's program. It returns the value or why there is none, and in
// both cases what the evaluation cost.
func (e *Expression) run(ctx context.Context, names interpreter.Activation) (v ref.Val, cost uint64, err error) {
	v, details, err := e.program.ContextEval(ctx, names)
	if counted := details.ActualCost(); counted != nil {
		cost = *counted
	}
	if err != nil {
		return nil, cost, err
	}
	return v, cost, nil
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
