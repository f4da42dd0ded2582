package expression

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// simple matches an expression that needs no parentheses before a dot.
var simple = regexp.MustCompile(`\A[a-zA-Z_][a-zA-Z0-9_.?'"\[\]/-]*\z`)

// Form ends a message about an expression that gives a value of the wrong kind: the author's
// expression in a form that gives what is wanted. It is empty where none is known. Gives is a
// value of the kind, raw JSON. Item is set where the value is an item of what the expression
// gives.
func (e *Expression) Form(gives any, t *podschema.Type, item bool) string {
	return form(e.source, kindOf(gives), t, item)
}

func form(source, gives string, t *podschema.Type, item bool) string {
	s := strings.TrimSpace(source)
	if strings.Contains(s, "\n") || len(s) > 60 {
		s = "x"
	}
	operand := s
	if !simple.MatchString(s) {
		operand = "(" + s + ")"
	}
	write := func(expr string) string { return "; write ${" + expr + "}" }
	if t == nil {
		return ""
	}
	if item {
		if t.Kind() == podschema.Scalar && t.Scalar() != podschema.Number && t.Scalar() != podschema.Boolean && (gives == "list" || gives == "object") {
			return write(operand + ".map(x, toJson(x))")
		}
		return ""
	}
	if t.Kind() == podschema.List && (gives == "text" || gives == "number" || gives == "boolean") {
		one := `; for a list of one write ["${` + s + `}"]`
		if gives == "text" {
			one += ", for its parts ${" + operand + ".split(',')}"
		}
		return one
	}
	if t.Kind() != podschema.Scalar {
		return ""
	}
	switch scalar := t.Scalar(); {
	case gives == "list" && (scalar == podschema.Number || scalar == podschema.Boolean):
		return "; for its first item" + strings.TrimPrefix(write(operand+"[0]"), ";")
	case gives == "list":
		return write(operand+".join(',')") + " or ${toJson(" + s + ")}"
	case gives == "object" && (scalar == podschema.String || scalar == podschema.Untyped):
		return write("toJson(" + s + ")")
	case gives == "text" && scalar == podschema.Number:
		return write("int(" + s + ")")
	case gives == "text" && scalar == podschema.Boolean:
		return write(operand + " == 'true'")
	}
	return ""
}

// textForm is form for an expression inside a longer text.
func textForm(source, gives string) string {
	if gives != "null" {
		return form(source, gives, podschema.At("kind"), false)
	}
	s := strings.TrimSpace(source)
	if !simple.MatchString(s) {
		return "; give it a value with orValue()"
	}
	return fmt.Sprintf("; give it a value, as with ${%s.orValue('')} where it is optional", s)
}

// kindOf names the kind of raw JSON in short.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "boolean"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "number"
}

// kindOfType is kindOf for what an expression of a static type gives.
func kindOfType(c *cel.Type) string {
	switch c = withoutOptional(c); c.Kind() {
	case types.ListKind:
		return "list"
	case types.MapKind:
		return "object"
	case types.BoolKind:
		return "boolean"
	case types.StringKind, types.DurationKind, types.TimestampKind:
		return "text"
	case types.IntKind, types.UintKind, types.DoubleKind:
		return "number"
	case types.StructKind:
		if isObject(c) {
			return "object"
		}
		return "text"
	}
	return ""
}
