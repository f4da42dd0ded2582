package expression

import (
	"cmp"
	"fmt"
	"regexp"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
)

// A variable that reads container, itself or through another such variable, has a value for each container of
// the pod. It may be read only where container is bound.

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

// readsContainer reports whether an expression reads container. It returns the first variable through which it
// does.
func (n *Names) readsContainer(root celast.Expr) (variable string, reads bool) {
	reader{do: func(name string, fields []string, _ bool) {
		switch {
		case name == eachName:
			reads = true
		case name == variablesName && len(fields) > 0 && n.perContainer[fields[0]]:
			variable, reads = cmp.Or(variable, fields[0]), true
		}
	}}.read(root)
	return variable, reads
}

// checkContainer returns an error if an expression outside of $each reads variables that need container.
func (e *Environment) checkContainer(root celast.Expr) error {
	if variable, _ := e.names.readsContainer(root); variable != "" && !e.each {
		return outsideOfContainer(variable)
	}
	return nil
}

func outsideOfContainer(variable string) error {
	return fmt.Errorf("the variable %s reads %s, so it has a value only where there is one: in an item of spec.containers with $each, and in variables that are read there", variable, eachName)
}

// variablesFor returns the variables for the scope of a container. All items that extend the container share
// them.
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
