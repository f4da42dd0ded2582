package expression

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/pillion-dev/pillion/templates/regexps"
)

// patterns returns why a template cannot have the regular expressions of an expression, or nil.
// What one costs that is only known for a pod, nobody counts: it is not for tenants.
func (t *Template) patterns(root celast.Expr) (refused error) {
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		if refused != nil || x.Kind() != celast.CallKind {
			return
		}
		call := x.AsCall()
		args := call.Args()
		if call.IsMemberFunction() {
			args = append([]celast.Expr{call.Target()}, args...)
		}
		switch name := call.FunctionName(); name {
		case "matches", "find", "findAll":
			if len(args) < 2 {
				return // says the check
			}
			text, spelledOut := "", args[1].Kind() == celast.LiteralKind
			if spelledOut {
				literal, _ := args[1].AsLiteral().(types.String)
				text = string(literal)
			}
			if t.Namespaced && !spelledOut {
				refused = fmt.Errorf("the regular expression of %s is not spelled out as one text; a template of a namespace cannot have such", name)
			} else if err := t.Patterns.Take(text); err != nil {
				refused = fmt.Errorf("the text in %s %w", name, err)
			}
		}
	}))
	return refused
}

// stepsPerCost is how many steps of a regular expression cost as much as one step of CEL, as in the
// costs of CEL's own regular expressions.
const stepsPerCost = 10

// chargedOverload begins the overload of a call with a regular expression that a tenant has spelled
// out; its size follows. CEL takes the length of its text for what it costs, and a few characters can be
// a program of a thousand instructions. Calls have nothing else that the tracker of costs sees.
const chargedOverload = "pillion_charged_"

// searchCost returns what it costs to search a text once.
func searchCost(text ref.Val, size int) uint64 {
	s, _ := text.(types.String)
	return uint64(1 + regexps.Steps(len(s), size)/stepsPerCost)
}

// chargedCost returns what a call costs, if its overload says the size. After each match findAll may
// search the rest of the text again.
func chargedCost(overload string, text, result ref.Val) (cost uint64, ok bool) {
	suffix, ok := strings.CutPrefix(overload, chargedOverload)
	if !ok {
		return 0, false
	}
	size, err := strconv.Atoi(suffix)
	if err != nil {
		return 0, false
	}
	if failed, isError := result.(*types.Err); isError && errors.Is(failed, errTooExpensive) {
		return MaxCost + 1, true
	}
	searches := uint64(1)
	if found, isList := result.(traits.Lister); isList {
		searches += uint64(found.Size().(types.Int))
	}
	return searches * searchCost(text, size), true
}

// errTooExpensive is the result of a call that was not made: it costs more than [MaxCost].
var errTooExpensive = errors.New("the regular expression costs too much for this text")

// charged compiles the regular expressions of a function. A call that would cost more than [MaxCost]
// is not made.
func charged(function string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{Function: function, RegexIndex: 1, Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		size := regexps.Size(text)
		return interpreter.NewCall(call.ID(), call.Function(), chargedOverload+strconv.Itoa(size), call.Args(), func(args ...ref.Val) ref.Val {
			text, ok := args[0].(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			searches := int(MaxCost / searchCost(text, size))
			if searches == 0 {
				return types.WrapErr(errTooExpensive)
			}
			switch function {
			case "matches":
				return types.Bool(compiled.MatchString(string(text)))
			case "find":
				return types.String(compiled.FindString(string(text)))
			}
			most := searches
			if len(args) > 2 {
				n, ok := args[2].(types.Int)
				if !ok {
					return types.MaybeNoSuchOverloadErr(args[2])
				}
				if n >= 0 && n < types.Int(searches) {
					most = int(n)
				}
			}
			found := compiled.FindAllString(string(text), most)
			if len(found) == searches {
				return types.WrapErr(errTooExpensive)
			}
			return types.NewStringList(types.DefaultTypeAdapter, found)
		}), nil
	}}
}
