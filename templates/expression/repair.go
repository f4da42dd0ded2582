package expression

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// A mistake in an expression is one message: CEL's, the position in the expression, and if known a repair,
// which is the author's own expression in a form that works.

var (
	undefinedField     = regexp.MustCompile(`^undefined field '([^']*)'`)
	undeclaredName     = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	reservedIdentifier = regexp.MustCompile(`reserved identifier: namespace`)
	mixedTypes         = regexp.MustCompile(`^expected type '([^']*)' but found '([^']*)'`)
	singleEquals       = regexp.MustCompile(`[^=!<>]=([^=]|$)`)
	containsInList     = regexp.MustCompile(`^found no matching overload for 'contains' applied to 'list`)
	wordOperator       = regexp.MustCompile(`\b(and|or|not)\b`)
	wrongOperands      = regexp.MustCompile(`^found no matching overload for '_(?:[-+*/%]|[=!<>]=|<|>)_' applied to '\(([a-z]+), ([a-z]+)\)'`)
	keyOfList          = regexp.MustCompile(`^(?:found no matching overload for '_\[_\]' applied to '|type ')\(?list`)
	numberOfMap        = regexp.MustCompile(`^found no matching overload for '_\[_\]' applied to '\(map\(string`)
	shellVariable      = regexp.MustCompile(`^\s*[A-Z_][A-Z0-9_]*\s*$`)
)

// explainIssues describes the first issue of an expression, because the others often follow from it.
func explainIssues(issues *cel.Issues, objects *provider, source string) string {
	all := issues.Errors()
	message := explainIssue(all[0], objects, source)
	if n := len(slices.DeleteFunc(all[1:], func(e *cel.Error) bool { return e.Message != all[0].Message })); n > 0 {
		message += fmt.Sprintf(", and the same at %d more places", n)
	}
	return message
}

// explainIssue describes an issue in one line, with its position and the repair.
func explainIssue(issue *cel.Error, objects *provider, source string) string {
	message := strings.ReplaceAll(issue.Message, " (in container '')", "")
	offset := offsetOf(source, issue.Location)
	switch {
	case undefinedField.MatchString(message):
		message = explainField(undefinedField.FindStringSubmatch(message)[1], objects)
		// CEL's place of a selection is its dot.
		offset += len(source[offset:]) - len(strings.TrimLeft(source[offset:], ".? \t\n"))
	case undeclaredName.MatchString(message):
		name := undeclaredName.FindStringSubmatch(message)[1]
		// CEL's place of a call on a value is its parenthesis.
		switch after := strings.TrimPrefix(source[offset:], name); {
		case shellVariable.MatchString(source):
			message += fmt.Sprintf("; for the literal text ${%s} write $${%s}", source, source)
		case strings.HasPrefix(strings.TrimSpace(after), "("):
			message += explainFunction(name)
		default:
			message += explainName(name, objects)
		}
	case mixedTypes.MatchString(message):
		types := mixedTypes.FindStringSubmatch(message)
		message += sameType(issue.ExprID, types[1], types[2], source)
	default:
		message += repair(message, source[offset:], source)
	}
	return show.Plain(fmt.Sprintf("in the expression %s: %s", show.Marked(source, offset), message))
}

// repair returns the repair for a message of CEL's about the rest of a source.
func repair(message, rest, source string) string {
	isSyntax := strings.HasPrefix(message, "Syntax error")
	switch {
	case isSyntax && singleEquals.MatchString(source):
		return "; to compare write =="
	case isSyntax && wordOperator.MatchString(rest):
		return "; write && for and, || for or, ! for not"
	case containsInList.MatchString(message):
		return "; for an item of a list write ITEM in LIST"
	case keyOfList.MatchString(message):
		return "; an item of a list is read by its number, as in LIST[0]"
	case numberOfMap.MatchString(message):
		return "; a value of a map is read by its key, as in MAP['KEY']"
	case reservedIdentifier.MatchString(message):
		return "; the namespace is namespaceObject"
	}
	if operands := wrongOperands.FindStringSubmatch(message); operands != nil {
		return oneType(operands[1], operands[2])
	}
	return ""
}

// oneType completes the message about an operator between values of two types.
func oneType(left, right string) string {
	scalars := []string{"string", "int", "double"}
	switch {
	case left == "null" || right == "null":
		return "; to ask whether a field is there write has(FIELD)"
	case left != right && slices.Contains(scalars, left) && slices.Contains(scalars, right):
		return "; both sides must be of one type: write string(…), int(…) or double(…) around one"
	}
	return ""
}

// sameType completes the message about an item of a literal list or map whose type differs from the items
// before it.
func sameType(id int64, want, found, source string) string {
	parsed, issues := baseEnvironment().Parse(source)
	item := find(celast.NavigateAST(parsed.NativeRep()), id)
	if issues.Err() != nil || item == nil {
		return ""
	}
	text, err := parser.Unparse(item, parsed.NativeRep().SourceInfo())
	isScalar := slices.Contains([]string{"string", "int", "double", "bool"}, want)
	switch {
	case err != nil:
		return ""
	case want == "string" && !strings.ContainsAny(found, "()"), isScalar && found == "dyn", want == "dyn":
		return fmt.Sprintf("; write %s(%s)", want, singleQuoted(text))
	}
	return "; for a map or list of mixed types wrap its values in dyn()"
}

// functionNames are the sorted names of the functions that expressions may call, without operators.
var functionNames = sync.OnceValue(func() []string {
	var names []string
	for name := range baseEnvironment().Functions() {
		if first := name[0]; (first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z') && !strings.Contains(name, "@") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Clip(names)
})

// habits are functions of other languages, with the form that works here.
var habits = map[string]string{
	"length": "size()", "len": "size()", "count": "size()", "toUpperCase": "upperAscii()", "toLowerCase": "lowerAscii()", "upper": "upperAscii()",
	"lower": "lowerAscii()", "toString": "string(…)", "str": "string(…)", "includes": "ITEM in LIST, or TEXT.contains(PART)", "default": "orValue(…)",
}

// explainFunction completes the message about an unknown function.
func explainFunction(name string) string {
	if form, ok := habits[name]; ok {
		return "; write " + form
	}
	if near, ok := nearest.Name(name, functionNames()); ok {
		return "; did you mean " + near + "?"
	}
	return "; there is no such function (all of them: docs/reference/functions.md)"
}

// explainName completes the message about a name that is neither visible nor a function.
func explainName(name string, objects *provider) string {
	if _, ok := objects.params[name]; ok {
		return "; write params." + name
	}
	if _, ok := objects.variables[name]; ok {
		return "; write variables." + name
	}
	if name == eachName {
		return "; it is there in items with $each, and in variables that such items read"
	}
	if near, ok := nearest.Name(name, append(functionNames(), visibleNames...)); ok {
		return "; did you mean " + near + "?"
	}
	return nearest.Hint(name, visibleNames)
}

func explainField(name string, objects *provider) string {
	switch of := objects.missed[name]; of {
	case variablesType:
		return fmt.Sprintf("no variable %s is declared before this%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(objects.variables))))
	case paramsType:
		return fmt.Sprintf("no parameter %s is declared%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(objects.params))))
	default:
		fields, _ := objects.fields(of)
		return fmt.Sprintf("%s has no field %s%s", strings.ReplaceAll(of, "/", "."), name, nearest.Hint(name, slices.Sorted(maps.Keys(fields))))
	}
}

// offsetOf returns the byte in source for a position of CEL's, 0 for none.
func offsetOf(source string, at common.Location) int {
	characters := []rune(source)
	offset, ok := common.NewTextSource(source).LocationOffset(at)
	if !ok || offset < 0 || int(offset) > len(characters) {
		return 0
	}
	return len(string(characters[:offset]))
}

// explain describes an error of an evaluation: the position in the expression, and the repair for a missing
// field, key or item.
func (e *Expression) explain(err error) string {
	var failed *types.Err
	if !errors.As(err, &failed) {
		return err.Error()
	}
	key, missing := strings.CutPrefix(failed.Error(), "no such key: ")
	if !missing {
		key, missing = strings.CutPrefix(failed.Error(), "index out of bounds: ")
	}
	id, repair := failed.NodeID(), ""
	if missing {
		if at := e.stepTo(key, id); at != nil {
			id, repair = at.ID(), e.optional(at, key)
		}
	}
	info := e.ast.SourceInfo()
	if _, known := info.GetOffsetRange(id); !known {
		return err.Error()
	}
	return err.Error() + ", in the expression " + show.Marked(e.source, offsetOf(e.source, info.GetStartLocation(id))) + repair
}

// stepTo returns the step at which a key is missing, by the id in the error. Macros such as all and exists, and
// conditions, lose the id: stepTo then returns the only step to such a key, or nil if there are several.
func (e *Expression) stepTo(key string, id int64) celast.NavigableExpr {
	root := celast.NavigateAST(e.ast)
	within := find(root, id)
	if within == nil {
		within = root
	} else if on, _, _ := step(within); on != nil {
		return within
	}
	for _, part := range []celast.NavigableExpr{within, root} {
		texts := map[string]bool{}
		steps := celast.MatchDescendants(part, func(x celast.NavigableExpr) bool {
			if on, field, _ := step(x); on == nil || field != key || isTest(x) || isAlwaysThere(x) {
				return false
			}
			text, err := parser.Unparse(x, e.ast.SourceInfo())
			texts[text] = true
			return err == nil
		})
		if len(texts) == 1 && len(steps) > 0 {
			return steps[0]
		}
	}
	return nil
}

// optional completes the message about a missing key with the whole path, in the form that has a default.
func (e *Expression) optional(at celast.NavigableExpr, key string) string {
	last := at
	for up, ok := last.Parent(); ok && isStepOn(up, last); up, ok = last.Parent() {
		last = up
	}
	root, steps := chain(last)
	missing := slices.IndexFunc(steps, func(s celast.Expr) bool { return nameOf(s) == key })
	for i := len(steps) - 1; i >= 0 && missing < 0; i-- {
		if nameOf(steps[i]) == "" { // the key was computed
			missing = i
		}
	}
	if missing < 0 {
		return ""
	}
	if typeOf(root) != nil {
		missing = min(missing, firstOptional(root, steps))
	}
	f, all := celast.NewExprFactory(), root
	for i, s := range steps {
		_, field, index := step(s)
		already := s.Kind() == celast.CallKind && s.AsCall().FunctionName() != operators.Index
		switch isOptional := i >= missing || already; {
		case isOptional && index == nil:
			all = f.NewCall(0, operators.OptSelect, all, f.NewLiteral(0, types.String(field)))
		case isOptional:
			all = f.NewCall(0, operators.OptIndex, all, index)
		case index == nil:
			all = f.NewSelect(0, all, field)
		default:
			all = f.NewCall(0, operators.Index, all, index)
		}
	}
	text, err := parser.Unparse(all, e.ast.SourceInfo())
	if err != nil {
		return ""
	}
	repair := "; it is not always there: write " + singleQuoted(text)
	if name := root.AsIdent(); name == podName || name == eachName {
		repair = "; not every " + name + " has it: write " + singleQuoted(text)
	}
	if isTest(last) {
		return repair + ".hasValue()"
	}
	return repair + ".orValue(" + emptyValue(last) + ")"
}

// chain returns the root of a path in an expression, and its steps in order.
func chain(last celast.Expr) (root celast.Expr, steps []celast.Expr) {
	root = last
	for on, _, _ := step(root); on != nil; on, _, _ = step(root) {
		steps = append(steps, root)
		root = on
	}
	slices.Reverse(steps)
	return root, steps
}

// step returns the operand of a step, and the step: .field, or [index].
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

// isStepOn reports whether x is a field or an item of the value of.
func isStepOn(x, of celast.Expr) bool {
	on, _, _ := step(x)
	return on != nil && on.ID() == of.ID()
}

// isTest reports whether x is the step inside has().
func isTest(x celast.Expr) bool {
	return x.Kind() == celast.SelectKind && x.AsSelect().IsTestOnly()
}

// nameOf returns the field or the key of a step as text, "" for a computed key.
func nameOf(s celast.Expr) string {
	_, field, index := step(s)
	if index != nil && index.Kind() == celast.LiteralKind {
		return fmt.Sprint(index.AsLiteral().Value())
	}
	return field
}

// ofEveryPod are the paths that every pod has.
var ofEveryPod = []string{"metadata", "spec", "spec.containers", "spec.containers.0", "spec.containers.0.name", "spec.containers.0.image"}

// firstOptional returns the first step to a field that not every pod has or, for another root, that not every
// container has.
func firstOptional(root celast.Expr, steps []celast.Expr) int {
	always := []string{"name", "image"}
	if root.AsIdent() == podName {
		always = ofEveryPod
	}
	place := ""
	for i, s := range steps {
		if place += nameOf(s); !slices.Contains(always, place) {
			return i
		}
		place += "."
	}
	return len(steps)
}

func isAlwaysThere(last celast.Expr) bool {
	root, steps := chain(last)
	return root.Kind() == celast.IdentKind && firstOptional(root, steps) == len(steps)
}

var doubleQuoted = regexp.MustCompile(`"([^"'\\]*)"`)

// singleQuoted writes the texts in an expression with the quotes that need no escape in a manifest.
func singleQuoted(expression string) string {
	return doubleQuoted.ReplaceAllString(expression, "'$1'")
}

// emptyValue returns the empty value of a path's type, if the type is known: by the pod's schema, or because a
// macro iterates over the value.
func emptyValue(last celast.NavigableExpr) string {
	over, _ := last.Parent()
	t := typeOfChain(last)
	switch {
	case t == nil && over != nil && over.Kind() == celast.CallKind && over.AsCall().FunctionName() == sortedFunction:
		return "[]"
	case t == nil:
		return "''"
	case t.Kind() == podschema.List:
		return "[]"
	case t.Kind() == podschema.Map, t.Kind() == podschema.Struct:
		return "{}"
	case t.Scalar() == podschema.Number:
		return "0"
	case t.Scalar() == podschema.Boolean:
		return "false"
	}
	return "''"
}

// typeOf returns the type of a name in the pod's schema, or nil: of the pod, of container, or of a name that a
// macro binds to the items of a list of the pod. The name is one of a [celast.NavigableExpr].
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

// find returns the node with an id, or nil.
func find(root celast.NavigableExpr, id int64) celast.NavigableExpr {
	found := celast.MatchDescendants(root, func(x celast.NavigableExpr) bool { return x.ID() == id })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// childrenOf returns the child nodes of a node.
func childrenOf(x celast.Expr) []celast.Expr {
	var children []celast.Expr
	for _, child := range celast.NavigateExpr(nil, x).Children() {
		children = append(children, child)
	}
	return children
}

// isSimple matches an expression that needs no parentheses before a dot.
var isSimple = regexp.MustCompile(`\A[a-zA-Z_][a-zA-Z0-9_.?'"\[\]/-]*\z`)

// Form suggests a form of the expression that has a value of the right kind. It returns "" if none is known.
// Gives is a value of the wrong kind, as raw JSON. Item is set if the value is an item of the expression's
// list.
func (e *Expression) Form(gives any, t *podschema.Type, item bool) string {
	return form(e.source, show.Kind(gives), t, item)
}

// The kinds of values, in the words of [show.Kind].
const (
	isText, isNumber, isBoolean, isList, isMap, isNull = "text", "a number", "a boolean", "a list", "an object", "null"
)

func form(source, gives string, t *podschema.Type, item bool) string {
	if t == nil {
		return ""
	}
	s := strings.TrimSpace(source)
	if strings.Contains(s, "\n") || len(s) > 60 {
		s = "x"
	}
	operand := s
	if !isSimple.MatchString(s) {
		operand = "(" + s + ")"
	}
	scalar := t.Scalar() // of neither a list nor an object
	wantsText := scalar == podschema.String || scalar == podschema.Untyped
	switch {
	case item && wantsText && (gives == isList || gives == isMap):
		return "; write ${" + operand + ".map(x, toJson(x))}"
	case item:
		return ""
	case t.Kind() == podschema.List && gives == isText:
		return `; for a list of one write ["${` + s + `}"], for its parts ${` + operand + ".split(',')}"
	case t.Kind() == podschema.List && (gives == isNumber || gives == isBoolean):
		return `; for a list of one write ["${` + s + `}"]`
	case wantsText && gives == isList:
		return "; write ${" + operand + ".join(',')} or ${toJson(" + s + ")}"
	case scalar != "" && gives == isList:
		return "; for its first item write ${" + operand + "[0]}"
	case wantsText && gives == isMap:
		return "; write ${toJson(" + s + ")}"
	case scalar == podschema.Number && gives == isText:
		return "; write ${int(" + s + ")}"
	case scalar == podschema.Boolean && gives == isText:
		return "; write ${" + operand + " == 'true'}"
	}
	return ""
}

// textForm is form for an expression inside a longer text.
func textForm(source, gives string) string {
	if gives != isNull {
		return form(source, gives, podschema.At("kind"), false)
	}
	s := strings.TrimSpace(source)
	if !isSimple.MatchString(s) {
		return "; give it a value with orValue()"
	}
	return fmt.Sprintf("; give it a value, as with ${%s.orValue('')} where it is optional", s)
}

// kindOfType names the kind of the values of a static type, in the words of [show.Kind].
func kindOfType(c *cel.Type) string {
	switch c = withoutOptional(c); c.Kind() {
	case types.ListKind:
		return isList
	case types.MapKind:
		return isMap
	case types.BoolKind:
		return isBoolean
	case types.StringKind, types.DurationKind, types.TimestampKind:
		return isText
	case types.IntKind, types.UintKind, types.DoubleKind:
		return isNumber
	case types.StructKind:
		if isObject(c) {
			return isMap
		}
		return isText
	}
	return ""
}
