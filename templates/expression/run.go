package expression

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/show"
)

// The bounds on the cost of expressions. Costs are in CEL's own unit, as in Kubernetes' admission policies.
const (
	// MaxCost bounds all templates of a review together.
	MaxCost = 500_000
	// MaxExpressionCost bounds one evaluation of one expression.
	MaxExpressionCost = MaxCost / 5
	// MaxBytes bounds the size of a run's results as JSON, approximately.
	MaxBytes = 256 << 10
	// bytesPerCost is the number of bytes of results for one unit of cost, as for texts in CEL.
	bytesPerCost = 10
	// MaxIterations bounds the repetitions of one $for, and the items of a macro such as map.
	MaxIterations = 1_000
	// checkEvery is the number of steps of a macro after which an evaluation checks its context.
	checkEvery = 100
	// iterationCost is the cost of one repetition of a $for or $each, without its expressions.
	iterationCost = 5
)

// Budget bounds the cost of all runs of one review. The zero value has all of [MaxCost] left. It is not safe
// for concurrent use.
type Budget struct{ cost uint64 }

// pay adds to the cost. It reports false if the cost exceeds the bound.
func (b *Budget) pay(cost uint64) bool {
	b.cost += cost
	return b.cost <= MaxCost
}

// Error is the reason why an expression has no value for a pod.
type Error struct {
	Place
	// Message has no control characters.
	Message string
	// TooExpensive is set if the run exceeded a bound. All its further evaluations return the same error.
	TooExpensive bool
}

func (e *Error) Error() string { return e.Message }

// Names has the names in the expressions of one template. It does not change once the template is compiled.
type Names struct {
	params []string
	// order has the names of the variables.
	order     []string
	variables map[string]*Expression
	// perContainer has the variables that read container.
	perContainer map[string]bool
	values       ref.Val
}

// Variable returns a variable's expression. It is nil if there is no such variable.
func (n *Names) Variable(name string) *Expression { return n.variables[name] }

// Run is one render of a template for one pod: the values that its expressions see, and the remaining budget.
// It is not safe for concurrent use.
type Run struct {
	ctx                               context.Context
	names                             *Names
	pod, namespace, params, variables ref.Val

	// ofContainer has the variables of each container, for the items with $each.
	ofContainer map[uintptr]ref.Val
	budget      *Budget
	remaining   room
	// exceeded is the error of an exceeded bound, or of an interrupted run. No expression can catch it.
	exceeded error
}

// Run begins a run. It ends with its context, which it checks before each evaluation and, in a comprehension,
// now and then. Pod and namespace are raw JSON. Params has the parameters with a value.
func (n *Names) Run(ctx context.Context, budget *Budget, pod, namespace, params map[string]any) *Run {
	r := &Run{
		ctx: ctx, names: n, budget: budget, remaining: MaxBytes, pod: adapt(pod), namespace: adapt(namespace),
		params: &object{
			typ: paramsValueType, names: n.params,
			has: func(name string) bool { _, ok := params[name]; return ok },
			get: func(name string) (any, error) {
				v, ok := params[name]
				if !ok {
					return nil, fmt.Errorf("the parameter %s is not set; check has(params.%s) first, or read params.?%s", name, name, name)
				}
				return v, nil
			},
		},
	}
	r.variables = r.lazyVariables(nil)
	return r
}

// evaluated is the value of a variable, or the error of its evaluation. An expression may catch the error, and
// read the variable again.
type evaluated struct {
	value ref.Val
	err   error
}

// lazyVariables returns the variables for the scope of a container, or the run's own for a nil scope. Each
// variable is evaluated when it is first read. Variables that do not read the container are shared with the
// run.
func (r *Run) lazyVariables(s *Scope) ref.Val {
	known := make(map[string]evaluated, len(r.names.variables))
	return &object{
		typ: variablesValueType, names: r.names.order,
		has: func(name string) bool {
			_, ok := r.names.variables[name]
			return ok && (s != nil || !r.names.perContainer[name])
		},
		get: func(name string) (any, error) {
			perContainer := r.names.perContainer[name]
			if s != nil && !perContainer {
				return r.variables.(*object).get(name)
			}
			if v, ok := known[name]; ok {
				return v.value, v.err
			}
			e, ok := r.names.variables[name]
			switch {
			case !ok:
				return nil, fmt.Errorf("no such variable: %s", name)
			case s == nil && perContainer:
				return nil, outsideOfContainer(name)
			}
			in := s
			if in == nil {
				in = r.Scope()
			}
			v, err := e.evaluate(in)
			if err != nil {
				err = fmt.Errorf("variable %s: %w", name, err)
			}
			known[name] = evaluated{v, err}
			return v, err
		},
	}
}

// End adds the size of the results to the cost. Its error is an *Error.
func (r *Run) End() error {
	return r.pay(uint64(MaxBytes-r.remaining)/bytesPerCost, Place{})
}

// Spend charges bytes of the result to the run's bound. Its error is an *Error.
func (r *Run) Spend(bytes int, at *manifest.Path) error {
	if err := r.remaining.spend(bytes); err != nil {
		return r.tooLarge(Place{At: at})
	}
	return nil
}

// pay adds to the cost of the review.
func (r *Run) pay(cost uint64, at Place) error {
	if !r.budget.pay(cost) {
		return r.overBudget(at)
	}
	return nil
}

func (r *Run) overBudget(at Place) error {
	return r.tooExpensive(at, fmt.Sprintf("the expressions of all templates of the pod together cost more than %d", MaxCost))
}

// tooExpensive ends the run.
func (r *Run) tooExpensive(at Place, message string) error {
	r.exceeded = &Error{Place: at, Message: message, TooExpensive: true}
	return r.exceeded
}

func (r *Run) tooLarge(at Place) error {
	return r.tooExpensive(at, fmt.Sprintf("the fragment is larger than %d bytes", MaxBytes))
}

// failure adds the place to an error of a conversion.
func (r *Run) failure(err error, at Place) error {
	switch {
	case r.exceeded != nil:
		return r.exceeded
	case r.remaining < 0:
		return r.tooLarge(at)
	}
	return &Error{Place: at, Message: show.Plain(err.Error())}
}

// Repetition adds the cost of one repetition of an item. Its error is an *Error, or that of the run's context.
func (r *Run) Repetition(item Place) error {
	if err := r.Interrupted(); err != nil {
		return err
	}
	return r.pay(iterationCost, item)
}

// Interrupted returns the error of the run's context if it has ended.
func (r *Run) Interrupted() error {
	if r.exceeded == nil {
		r.exceeded = r.ctx.Err()
	}
	return r.exceeded
}

// evaluate runs an expression and adds its cost to the run's. Its error is an *Error, or
// that of the run's context.
func (e *Expression) evaluate(s *Scope) (ref.Val, error) {
	r := s.run
	// A variable is evaluated inside another expression, which may catch its error. An exceeded bound must end
	// that expression, too.
	if err := r.Interrupted(); err != nil {
		return nil, err
	}
	v, details, err := e.eval(s)
	cost := e.readCost
	if counted := details.ActualCost(); counted != nil {
		cost = *counted
	}
	var cancelled interpreter.EvalCancelledError
	switch {
	case r.exceeded != nil:
		return nil, r.exceeded
	case errors.Is(err, interpreter.InterruptError{}):
		r.exceeded = cmp.Or(r.ctx.Err(), err)
		return nil, r.exceeded
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return nil, r.tooExpensive(e.Place, fmt.Sprintf("an expression costs more than %d", MaxExpressionCost))
	case !r.budget.pay(cost):
		return nil, r.overBudget(e.Place)
	case errors.Is(err, errTooLarge), errors.Is(err, errTooLong), errors.Is(err, errTooMany):
		return nil, r.tooExpensive(e.Place, show.Plain(err.Error()))
	case err != nil:
		return nil, &Error{Place: e.Place, Message: show.Plain(e.explain(err))}
	}
	return v, nil
}

// eval evaluates the program. It passes a context only to an expression with a comprehension, because a context
// costs as much as a short evaluation.
func (e *Expression) eval(s *Scope) (ref.Val, *cel.EvalDetails, error) {
	if e.loops {
		return e.program.ContextEval(s.run.ctx, s)
	}
	return e.program.Eval(s)
}

// Condition evaluates a boolean expression. Its error is an *Error.
func (e *Expression) Condition(s *Scope) (bool, error) {
	v, err := e.evaluate(s)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, &Error{Place: e.Place, Message: fmt.Sprintf("the condition gives %s; it must give true or false", celKind(v.Type().TypeName()))}
	}
	return bool(b), nil
}

// Text evaluates an expression inside a longer text. Its error is an *Error.
func (e *Expression) Text(s *Scope) (string, error) {
	v, err := e.evaluate(s)
	if err != nil {
		return "", err
	}
	text, err := toText(v, e.source, &s.run.remaining)
	if err != nil {
		return "", s.run.failure(err, e.Place)
	}
	return text, nil
}

// Value evaluates an expression, and returns its value as raw JSON, nil for null and optional.none(). Its error
// is an *Error.
func (e *Expression) Value(s *Scope) (any, error) {
	v, err := e.evaluate(s)
	if err != nil {
		return nil, err
	}
	native, err := toNative(v, &s.run.remaining)
	if err != nil {
		return nil, s.run.failure(err, e.Place)
	}
	return native, nil
}

// Repeat evaluates an expression with a list or a map, and calls do for each item or key in order, with the
// name bound to it. It charges the run for each call, and reports an exceeded bound at the place item. Its
// error is an *Error, or that of do.
func (e *Expression) Repeat(s *Scope, name string, item Place, do func(*Scope) error) error {
	over, err := e.evaluate(s)
	if err != nil {
		return err
	}
	_, isList := over.(traits.Lister)
	_, isMap := over.(traits.Mapper)
	if m, ok := over.(traits.Mapper); ok {
		over = sortedMap{m}
	}
	iterable, ok := over.(traits.Iterable)
	if !ok || !isList && !isMap {
		return &Error{Place: e.Place, Message: show.Plain(fmt.Sprintf("$for goes over %s; it must go over a list or a map", celKind(over.Type().TypeName())))}
	}
	count := 0
	for walk := iterable.Iterator(); walk.HasNext() == types.True; {
		if count++; count > MaxIterations {
			return s.run.tooExpensive(item, fmt.Sprintf("$for repeats more than %d times", MaxIterations))
		}
		if err := s.run.Repetition(item); err != nil {
			return err
		}
		if err := do(s.bind(name, walk.Next())); err != nil {
			return err
		}
	}
	return nil
}
