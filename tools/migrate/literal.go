package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/parser"
)

// code is a part of an expression that only its evaluation gives a value.
type code string

// celParser parses CEL expressions with Kubernetes' optional syntax and macros. It checks no types.
var celParser = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(cel.EnableMacroCallTracking(), cel.OptionalTypes(), ext.TwoVarComprehensions())
	if err != nil {
		panic(err) // the options contradict each other
	}
	return env
})

// literalOf returns what an expression writes out: constants, lists, maps, and objects such as
// Object.spec{…}, as the mutations of Kubernetes' admission policies have them. A part that has to
// be evaluated is [code] in its place. Numbers are json.Number.
func literalOf(source string) (any, error) {
	parsed, issues := celParser().Parse(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("reading an expression: %w", issues.Err())
	}
	l := literal{info: parsed.NativeRep().SourceInfo()}
	return l.value(parsed.NativeRep().Expr()), nil
}

// renameIn returns an expression that reads one name for another. An expression that binds one of
// the two itself, as in all(NAME, …), is an error.
func renameIn(source, name, to string) (string, error) {
	parsed, issues := celParser().Parse(source)
	if issues.Err() != nil {
		return "", fmt.Errorf("reading an expression: %w", issues.Err())
	}
	info, places, bound := parsed.NativeRep().SourceInfo(), map[int32]bool{}, ""
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case e.Kind() == ast.IdentKind && e.AsIdent() == name:
			if at, known := info.GetOffsetRange(e.ID()); known {
				places[at.Start] = true
			}
		case e.Kind() == ast.ComprehensionKind:
			c := e.AsComprehension()
			for _, v := range []string{c.IterVar(), c.IterVar2(), c.AccuVar()} {
				if v == name || v == to {
					bound = v
				}
			}
		}
	}))
	if bound != "" {
		return "", fmt.Errorf("the expression binds %s itself", bound)
	}
	runes, end := []rune(source), 0
	var renamed strings.Builder
	for _, at := range slices.Sorted(maps.Keys(places)) {
		renamed.WriteString(string(runes[end:at]) + to)
		end = int(at) + len(name)
	}
	return renamed.String() + string(runes[end:]), nil
}

type literal struct{ info *ast.SourceInfo }

func (l literal) value(e ast.Expr) any {
	switch e.Kind() {
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			return string(v)
		case types.Bool:
			return bool(v)
		case types.Int, types.Uint, types.Double:
			return json.Number(fmt.Sprint(v.Value()))
		case types.Null:
			return nil
		}
	case ast.ListKind:
		items := make([]any, 0, e.AsList().Size())
		for _, item := range e.AsList().Elements() {
			items = append(items, l.value(item))
		}
		return items
	case ast.StructKind:
		object := map[string]any{}
		for _, field := range e.AsStruct().Fields() {
			f := field.AsStructField()
			if object[f.Name()] = l.value(f.Value()); f.IsOptional() {
				object[f.Name()] = l.code(f.Value())
			}
		}
		return object
	case ast.MapKind:
		object := map[string]any{}
		for _, entry := range e.AsMap().Entries() {
			key, ok := l.value(entry.AsMapEntry().Key()).(string)
			if !ok {
				return l.code(e)
			}
			object[key] = l.value(entry.AsMapEntry().Value())
		}
		return object
	}
	return l.code(e)
}

func (l literal) code(e ast.Expr) code {
	text, err := parser.Unparse(e, l.info)
	if err != nil {
		return "an expression"
	}
	return code(text)
}
