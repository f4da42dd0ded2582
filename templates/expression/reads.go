package expression

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// reader visits the names that an expression reads.
type reader struct {
	// outside are functions whose calls are left out. values also leaves out conditions.
	outside []string
	values  bool
	// do is called with each name that no macro in the expression binds. The fields are the path from there,
	// with "" for a computed key. Asked is set if the path is an argument of has().
	do func(name string, fields []string, asked bool)
}

// read visits an expression inside macros that bind some names.
func (r reader) read(x celast.Expr, bound ...string) {
	if x.Kind() == celast.CallKind && slices.Contains(r.outside, x.AsCall().FunctionName()) {
		return
	}
	if x.Kind() == celast.CallKind && x.AsCall().FunctionName() == operators.Conditional && r.values {
		r.read(x.AsCall().Args()[1], bound...)
		r.read(x.AsCall().Args()[2], bound...)
		return
	}
	last, key := x, ""
	if call := x.AsCall(); x.Kind() == celast.CallKind && call.FunctionName() == operators.In {
		if literal := call.Args()[0]; literal.Kind() == celast.LiteralKind {
			if key, _ = literal.AsLiteral().Value().(string); key != "" {
				last = call.Args()[1] // "key in map" reads the key
			}
		}
	}
	root, steps := chain(last)
	for _, s := range steps {
		if _, _, index := step(s); index != nil {
			r.read(index, bound...)
		}
	}
	switch root.Kind() {
	case celast.IdentKind:
		fields := fieldsOf(steps)
		if key != "" {
			fields = append(fields, key)
		}
		if name := root.AsIdent(); !slices.Contains(bound, name) {
			r.do(name, fields, last.Kind() == celast.SelectKind && last.AsSelect().IsTestOnly())
		}
	case celast.ComprehensionKind:
		c := root.AsComprehension()
		r.read(c.IterRange(), bound...)
		r.read(c.AccuInit(), bound...)
		inside := slices.Concat(bound, []string{c.IterVar(), c.IterVar2(), c.AccuVar()})
		for _, part := range []celast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.read(part, inside...)
		}
	default:
		for _, child := range childrenOf(root) {
			r.read(child, bound...)
		}
	}
}

// fieldsOf returns the fields and the literal keys of a path, "" for a computed key.
func fieldsOf(steps []celast.Expr) []string {
	fields := make([]string, len(steps))
	for i, s := range steps {
		_, field, index := step(s)
		if index != nil && index.Kind() == celast.LiteralKind {
			field, _ = index.AsLiteral().Value().(string)
		}
		fields[i] = field
	}
	return fields
}

// Reads returns the names that the expression reads: parameters as params.NAME, variables as variables.NAME,
// and other names as they are.
func (e *Expression) Reads() []string { return e.names(reader{}) }

// Inserts returns the names whose text may become part of the expression's value. It leaves out names that are
// only read in calls of the functions outside, in conditions, or in expressions without a text.
func (e *Expression) Inserts(outside ...string) []string {
	return e.names(reader{outside: append(outside, withoutText...), values: true})
}

// withoutText are operators and functions whose results have no text.
var withoutText = []string{
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.In, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot,
	"size", "int", "uint", "double", "bool", "matches", "startsWith", "endsWith", "contains", "hasValue", "indexOf",
}

func (e *Expression) names(r reader) (names []string) {
	r.do = func(name string, fields []string, asked bool) {
		if len(fields) > 0 && (name == paramsName || name == variablesName) {
			if asked && len(fields) == 1 {
				return
			}
			name += "." + fields[0]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	r.read(e.ast.Expr())
	return names
}

// ParametersOf returns the parameters that an expression reads, itself or through variables, each once.
func (n *Names) ParametersOf(e *Expression) []string {
	var names []string
	seen := map[string]bool{}
	var walk func(*Expression)
	walk = func(e *Expression) {
		if e == nil {
			return
		}
		for _, read := range e.Reads() {
			if seen[read] {
				continue
			}
			seen[read] = true
			if name, ok := strings.CutPrefix(read, paramsName+"."); ok {
				names = append(names, name)
			} else if name, ok := strings.CutPrefix(read, variablesName+"."); ok {
				walk(n.variables[name])
			}
		}
	}
	walk(e)
	return names
}

// ValueReads are the paths of the installer's values that expressions read. Whole is set if an expression reads
// all values, or computes the first field.
type ValueReads struct {
	Fields [][]string
	Whole  bool
}

// Values returns the fields of the installer's values that the template's expressions read.
func (e *Environment) Values() (v ValueReads) {
	for _, fields := range e.template.reads[valuesName] {
		if i := slices.Index(fields, ""); i >= 0 {
			fields = fields[:i] // all fields below count
		}
		if len(fields) == 0 {
			v.Whole = true
		} else {
			v.Fields = append(v.Fields, fields)
		}
	}
	return v
}

// Words returns the literal texts of the expression.
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

// Calls reports whether the whole expression is a call of the function.
func (e *Expression) Calls(function string) bool {
	top := e.ast.Expr()
	return top.Kind() == celast.CallKind && top.AsCall().FunctionName() == function
}
