package expression

import (
	"fmt"
	"regexp"
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
)

// A variable that reads container, itself or through another such variable, has a value for
// each container of the pod, and may be read only where container is bound.

// mentionsContainer reports whether an expression may read container.
var mentionsContainer = regexp.MustCompile(`\b` + eachName + `\b`)

// CompileVariable compiles the expression of a variable. It returns nil if the expression has
// problems.
func (e *Environment) CompileVariable(source string, at Place) *Expression {
	if !mentionsContainer.MatchString(source) && len(e.names.perContainer) == 0 {
		return e.Compile(source, at)
	}
	if e.inContainer == nil {
		var err error
		if e.inContainer, err = e.withContainer(); err != nil {
			e.template.Problem(at, err.Error())
			return nil
		}
	}
	return e.inContainer.Compile(source, at)
}

// readsContainer reports whether an expression reads container. A name that a macro binds is
// another one.
func (n *Names) readsContainer(root celast.Expr) bool {
	return reads(root, eachName) || slices.ContainsFunc(variablesIn(root), func(v string) bool { return n.perContainer[v] })
}

// checkContainer returns why an expression outside of $each cannot have its variables, or nil.
func (e *Environment) checkContainer(root celast.Expr) error {
	if len(e.names.perContainer) == 0 || e.each {
		return nil
	}
	for _, v := range variablesIn(root) {
		if e.names.perContainer[v] {
			return outsideOfContainer(v)
		}
	}
	return nil
}

func outsideOfContainer(variable string) error {
	return fmt.Errorf("the variable %s reads %s, so it has a value only where there is one: in an item of spec.containers with $each, and in variables that are read there", variable, eachName)
}

// variablesIn returns the variables that an expression reads by name.
func variablesIn(root celast.Expr) []string {
	var names []string
	isVariables := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == variablesName }
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		switch x.Kind() {
		case celast.SelectKind:
			if s := x.AsSelect(); isVariables(s.Operand()) {
				names = append(names, s.FieldName())
			}
		case celast.CallKind:
			call := x.AsCall()
			if args := call.Args(); call.FunctionName() == "_?._" && len(args) == 2 && isVariables(args[0]) && args[1].Kind() == celast.LiteralKind {
				names = append(names, fmt.Sprint(args[1].AsLiteral().Value()))
			}
		}
	}))
	return names
}

// reads reports whether an expression reads a name that no macro around the place binds.
func reads(x celast.Expr, name string) bool {
	any := func(of ...celast.Expr) bool {
		return slices.ContainsFunc(of, func(x celast.Expr) bool { return reads(x, name) })
	}
	switch x.Kind() {
	case celast.IdentKind:
		return x.AsIdent() == name
	case celast.ComprehensionKind:
		c := x.AsComprehension()
		item := c.IterVar() == name || c.HasIterVar2() && c.IterVar2() == name
		result := c.AccuVar() == name
		return any(c.IterRange(), c.AccuInit()) || !result && any(c.Result()) || !item && !result && any(c.LoopCondition(), c.LoopStep())
	}
	return any(childrenOf(x)...)
}

// variablesFor returns the variables as the scope of a container sees them: once for each
// container of the run, whichever items extend it.
func (r *Run) variablesFor(s *Scope, container uintptr) ref.Val {
	if len(r.names.perContainer) == 0 {
		return nil
	}
	if r.ofContainer == nil {
		r.ofContainer = map[uintptr]ref.Val{}
	}
	if r.ofContainer[container] == nil {
		r.ofContainer[container] = r.lazyVariables(s)
	}
	return r.ofContainer[container]
}
