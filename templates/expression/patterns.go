package expression

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
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
