package expression

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// missingKey returns the key, the field or the index that an error says is not there.
func missingKey(failed *types.Err) (string, bool) {
	for _, says := range []string{"no such key: ", "index out of bounds: "} {
		if key, ok := strings.CutPrefix(failed.Error(), says); ok {
			return key, true
		}
	}
	return "", false
}

// placeOf returns the id of the step to the key that an error says is not there, where the
// error has the place of something around it, or none: the macros that are true for some or
// for all items, and conditions, keep no place. It is 0 if the error has the place of a step,
// or there is no step to the key.
func (e *Expression) placeOf(failed *types.Err) (id int64) {
	key, ok := missingKey(failed)
	if !ok {
		return 0
	}
	within := e.find(failed.NodeID())
	if within == nil {
		return e.stepTo(e.ast.Expr(), key)
	}
	if on, _, _ := step(within); on != nil {
		return 0
	}
	if id = e.stepTo(within, key); id == 0 {
		id = e.stepTo(e.ast.Expr(), key)
	}
	return id
}

// stepTo returns the id of the step to a key in a part of an expression. It is 0 if there is
// none, or if it may be one of several.
func (e *Expression) stepTo(within celast.Expr, key string) (id int64) {
	texts := map[string]int64{}
	celast.PreOrderVisit(within, celast.NewExprVisitor(func(x celast.Expr) {
		asked := x.Kind() == celast.SelectKind && x.AsSelect().IsTestOnly()
		if on, field, _ := step(x); on == nil || field != key || asked || alwaysThere(x) {
			return
		}
		if text, err := parser.Unparse(x, e.ast.SourceInfo()); err == nil && texts[text] == 0 {
			texts[text], id = x.ID(), x.ID()
		}
	}))
	if len(texts) > 1 {
		return 0
	}
	return id
}

// alwaysThere reports whether every pod has what a chain of steps leads to.
func alwaysThere(last celast.Expr) bool {
	root, steps := chain(last)
	if root.Kind() != celast.IdentKind {
		return false
	}
	if root.AsIdent() == podName {
		return firstOptional(steps) == len(steps)
	}
	_, field, _ := step(last)
	return len(steps) == 1 && (field == "name" || field == "image")
}

// chain returns what a chain of steps begins with, and the steps in order.
func chain(last celast.Expr) (root celast.Expr, steps []celast.Expr) {
	root = last
	for on, _, _ := step(root); on != nil; on, _, _ = step(root) {
		steps = append(steps, root)
		root = on
	}
	slices.Reverse(steps)
	return root, steps
}

// suggestion ends the message about a field, a key or an item that is not there: the author's
// expression in the form that works. It is empty if the error is another one. The id is that
// of the node where the error is.
func (e *Expression) suggestion(failed *types.Err, id int64) string {
	key, ok := missingKey(failed)
	if !ok {
		return ""
	}
	at := e.find(id)
	if at == nil {
		return ""
	}
	// An attribute is a chain of steps that is evaluated at once. The error has the place
	// of one of them.
	for up, ok := at.Parent(); ok && isStepOn(up, at); up, ok = at.Parent() {
		at = up
	}
	return e.optional(at, key)
}

// isStepOn reports whether x is a field or an item of the value of.
func isStepOn(x, of celast.Expr) bool {
	on, _, _ := step(x)
	return on != nil && on.ID() == of.ID()
}

// step returns what a step goes on from, and the step: .field, or [index].
func step(x celast.Expr) (on celast.Expr, field string, index celast.Expr) {
	switch x.Kind() {
	case celast.SelectKind:
		return x.AsSelect().Operand(), x.AsSelect().FieldName(), nil
	case celast.CallKind:
		if call := x.AsCall(); len(call.Args()) == 2 {
			switch call.FunctionName() {
			case operators.Index, operators.OptIndex:
				return call.Args()[0], "", call.Args()[1]
			case operators.OptSelect:
				if name, ok := call.Args()[1].AsLiteral().Value().(string); ok {
					return call.Args()[0], name, nil
				}
			}
		}
	}
	return nil, "", nil
}

// optional writes a chain of steps so that it has a value where the key is missing.
func (e *Expression) optional(last celast.NavigableExpr, key string) string {
	root, steps := chain(last)
	missing := -1
	for i, s := range steps {
		_, field, index := step(s)
		if field == key || index != nil && index.Kind() == celast.LiteralKind && fmt.Sprint(index.AsLiteral().Value()) == key {
			missing = i
			break
		}
		if index != nil && index.Kind() != celast.LiteralKind {
			missing = i // by its value, which is not known here
		}
	}
	info := e.ast.SourceInfo()
	text, err := parser.Unparse(root, info)
	if missing < 0 || err != nil {
		return ""
	}
	if typeOf(root) != nil {
		missing = min(missing, firstOptional(steps))
	}
	for i, s := range steps {
		_, field, index := step(s)
		question := ""
		if i >= missing || s.Kind() == celast.CallKind && s.AsCall().FunctionName() != operators.Index {
			question = "?"
		}
		if index == nil {
			text += "." + question + field
			continue
		}
		inside, err := parser.Unparse(index, info)
		if err != nil {
			return ""
		}
		if index.Kind() == celast.LiteralKind {
			if word, ok := index.AsLiteral().Value().(string); ok {
				inside = quoted(word)
			}
		}
		text += "[" + question + inside + "]"
	}
	where := "; it is not always there: write "
	if name := root.AsIdent(); name == podName || name == eachName {
		where = "; not every " + name + " has it: write "
	}
	if last.Kind() == celast.SelectKind && last.AsSelect().IsTestOnly() {
		return where + text + ".hasValue()"
	}
	return where + text + ".orValue(" + otherwise(last) + ")"
}

// firstOptional returns the first step to something that not every pod or container has.
func firstOptional(steps []celast.Expr) int {
	before, first := "", false // the field before, and whether the step before is to the first container
	for i, s := range steps {
		_, field, index := step(s)
		toFirst := index != nil && before == "containers" && index.Kind() == celast.LiteralKind && fmt.Sprint(index.AsLiteral().Value()) == "0"
		ofFirst := first && (field == "name" || field == "image")
		if !toFirst && !ofFirst && (i > 1 || field != "metadata" && field != "spec" && field != "containers") {
			return i
		}
		before, first = field, toFirst
	}
	return len(steps)
}

// quoted writes a text as a literal of CEL, in the quotes that need no escape in a manifest.
func quoted(s string) string {
	double := strconv.Quote(s)
	if double == `"`+s+`"` && !strings.Contains(s, "'") {
		return "'" + s + "'"
	}
	return double
}

// otherwise returns the empty value of a chain's type, as far as that is known: by the pod's
// schema, or by what goes over the value.
func otherwise(last celast.NavigableExpr) string {
	if t := typeOfChain(last); t != nil {
		return emptyOf(t)
	}
	if over, ok := last.Parent(); ok && over.Kind() == celast.CallKind && over.AsCall().FunctionName() == sortedFunction {
		return "[]"
	}
	return "''"
}

func emptyOf(t *podschema.Type) string {
	switch t.Kind() {
	case podschema.List:
		return "[]"
	case podschema.Map, podschema.Struct:
		return "{}"
	}
	switch t.Scalar() {
	case podschema.Number:
		return "0"
	case podschema.Boolean:
		return "false"
	}
	return "''"
}

// typeOf returns the type of a name in the pod's schema, or nil: of the pod, of container, and
// of a name that a macro binds to the items of one of the pod's lists. The name is one of a
// [celast.NavigableExpr].
func typeOf(root celast.Expr) *podschema.Type {
	at, ok := root.(celast.NavigableExpr)
	if !ok || root.Kind() != celast.IdentKind {
		return nil
	}
	name := root.AsIdent()
	for up, ok := at.Parent(); ok; up, ok = at.Parent() {
		binds := up.Kind() == celast.ComprehensionKind && up.AsComprehension().IterVar() == name && up.AsComprehension().IterRange().ID() != at.ID()
		if at = up; !binds {
			continue
		}
		walked := up.AsComprehension().IterRange()
		if walked.Kind() == celast.CallKind && walked.AsCall().FunctionName() == sortedFunction {
			walked = walked.AsCall().Args()[0]
		}
		if t := typeOfChain(walked); t != nil && t.Kind() == podschema.List {
			return t.Elem()
		}
		return nil
	}
	switch name {
	case podName:
		return podschema.Pod()
	case eachName:
		return podschema.At("spec.containers[]")
	}
	return nil
}

func typeOfChain(x celast.Expr) *podschema.Type {
	on, field, index := step(x)
	if on == nil {
		return typeOf(x)
	}
	t := typeOfChain(on)
	switch {
	case t == nil:
		return nil
	case t.Kind() == podschema.Struct && index == nil:
		return t.Child(field)
	case t.Kind() == podschema.Map, t.Kind() == podschema.List && index != nil:
		return t.Elem()
	}
	return nil
}

// find returns the node of the expression with an id, or nil.
func (e *Expression) find(id int64) celast.NavigableExpr {
	found := celast.MatchDescendants(celast.NavigateAST(e.ast), func(x celast.NavigableExpr) bool { return x.ID() == id })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// childrenOf returns the nodes that a node is made of.
func childrenOf(x celast.Expr) []celast.Expr {
	var children []celast.Expr
	for _, child := range celast.NavigateExpr(nil, x).Children() {
		children = append(children, child)
	}
	return children
}
