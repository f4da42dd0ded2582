package expression

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// reader goes over what an expression reads.
type reader struct {
	// outside are functions whose calls it leaves out. Values leaves conditions out, too.
	outside []string
	values  bool
	// do is called with each name that no macro in the expression binds. The fields are the steps
	// from there, fields or keys, and "" for a key that is computed. Asked is set where the last step
	// is in has().
	do func(name string, fields []string, asked bool)
}

// read goes over an expression inside macros that bind some names.
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

// fieldsOf returns the fields and the keys that steps lead to, "" for one that is not spelled
// out.
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

// Reads returns the names that the expression reads: parameters as params.NAME, variables as
// variables.NAME, and other names as they are.
func (e *Expression) Reads() []string { return e.names(reader{}) }

// Inserts returns the names whose text may be in the expression's value: those that it reads outside
// of calls of some functions, of conditions, and of what gives no text.
func (e *Expression) Inserts(outside ...string) []string {
	return e.names(reader{outside: append(outside, withoutText...), values: true})
}

// withoutText are operators and functions that give no text.
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

// ParametersOf returns the parameters that an expression reads, itself or by the variables
// that it reads, each once.
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

// ReadsOfPod returns what the expression reads that is not the same for all pods with the
// same parameters: the pod, its namespace, and the names that $each and $for bind. Variables
// count for what they read.
func (e *Expression) ReadsOfPod() []string { return e.ofPod }

func (e *Environment) readsOfPod(root celast.Expr) []string {
	var names []string
	reader{do: func(name string, fields []string, _ bool) {
		switch {
		case name == podName, name == namespaceName, slices.Contains(e.bound, name):
			names = append(names, name)
		case name == variablesName:
			if len(fields) > 0 && e.names.variables[fields[0]] != nil {
				names = append(names, e.names.variables[fields[0]].ofPod...)
			} else {
				names = append(names, podName) // any of them
			}
		}
	}}.read(root)
	slices.Sort(names)
	return slices.Compact(names)
}

// ValueReads are the installer's values that expressions spell out, each by its fields. Whole
// reports that an expression reads all of them: it uses values as such, or makes the first
// field as it runs.
type ValueReads struct {
	Fields [][]string
	Whole  bool
}

// Values returns what the template's expressions read of the installer's values.
func (e *Environment) Values() (v ValueReads) {
	for _, fields := range e.template.reads[valuesName] {
		if i := slices.Index(fields, ""); i >= 0 {
			fields = fields[:i] // all that is below counts
		}
		if len(fields) == 0 {
			v.Whole = true
		} else {
			v.Fields = append(v.Fields, fields)
		}
	}
	return v
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
