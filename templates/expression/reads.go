package expression

import (
	"fmt"
	"slices"

	celast "github.com/google/cel-go/common/ast"
)

// Reads returns the names that the expression reads outside of calls of some functions:
// parameters as params.NAME, variables as variables.NAME, and other names as they are.
func (e *Expression) Reads(outside ...string) []string { return namesIn(e.ast.Expr(), outside) }

// ReadsOfPod returns what the expression reads that is not the same for all pods with the
// same parameters: the pod, its namespace, and the names that $each and $for bind. Variables
// count for what they read.
func (e *Expression) ReadsOfPod() []string { return e.ofPod }

// readsOfPod finds them. A name that a macro binds anew counts for the outer one, too.
func (e *Environment) readsOfPod(root celast.Expr) []string {
	var names []string
	selected := map[int64]bool{}
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(x celast.Expr) {
		switch x.Kind() {
		case celast.SelectKind:
			s := x.AsSelect()
			if of := s.Operand(); of.Kind() == celast.IdentKind && of.AsIdent() == variablesName {
				selected[of.ID()] = true
				if v := e.names.variables[s.FieldName()]; v != nil {
					names = append(names, v.ofPod...)
				} else {
					names = append(names, podName)
				}
			}
		case celast.IdentKind:
			name := x.AsIdent()
			switch {
			case name == podName, name == namespaceName, slices.Contains(e.bound, name):
				names = append(names, name)
			case name == variablesName && !selected[x.ID()]:
				names = append(names, podName) // any of them
			}
		}
	}))
	slices.Sort(names)
	return slices.Compact(names)
}

// Words returns the texts that the expression spells out.
func (e *Expression) Words() []string {
	var words []string
	celast.PreOrderVisit(e.ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.LiteralKind {
			if text, ok := e.AsLiteral().Value().(string); ok {
				words = append(words, text)
			}
		}
	}))
	return words
}

// Calls reports whether the expression as a whole is a call of the function.
func (e *Expression) Calls(function string) bool {
	top := e.ast.Expr()
	return top.Kind() == celast.CallKind && top.AsCall().FunctionName() == function
}

// namesIn returns the names that an expression reads outside of calls of some functions.
func namesIn(root celast.Expr, except []string) []string {
	var names []string
	bound := map[string]bool{}
	inner := map[int64]bool{} // nodes to skip: identifiers that a selection has named, and arguments
	note := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	celast.PreOrderVisit(root, celast.NewExprVisitor(func(e celast.Expr) {
		if inner[e.ID()] {
			return
		}
		switch e.Kind() {
		case celast.ComprehensionKind:
			c := e.AsComprehension()
			bound[c.IterVar()], bound[c.IterVar2()], bound[c.AccuVar()] = true, true, true
		case celast.SelectKind:
			s := e.AsSelect()
			if of := s.Operand(); of.Kind() == celast.IdentKind && (of.AsIdent() == paramsName || of.AsIdent() == variablesName) {
				inner[of.ID()] = true
				if !s.IsTestOnly() {
					note(of.AsIdent() + "." + s.FieldName())
				}
			}
		case celast.CallKind:
			call := e.AsCall()
			args := call.Args()
			if slices.Contains(except, call.FunctionName()) {
				for _, arg := range args {
					celast.PreOrderVisit(arg, celast.NewExprVisitor(func(e celast.Expr) { inner[e.ID()] = true }))
				}
			}
			if call.FunctionName() == "_?._" && len(args) == 2 && args[0].Kind() == celast.IdentKind && args[1].Kind() == celast.LiteralKind {
				if of := args[0].AsIdent(); of == paramsName || of == variablesName {
					inner[args[0].ID()] = true
					note(fmt.Sprintf("%s.%v", of, args[1].AsLiteral().Value()))
				}
			}
		case celast.IdentKind:
			if name := e.AsIdent(); !bound[name] {
				note(name)
			}
		}
	}))
	return names
}
