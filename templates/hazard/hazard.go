package hazard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Text is a text of a fragment with expressions in it, or a value that one expression
// gives.
type Text struct {
	Parts []Part
	// Script is set for the text of a shell's script.
	Script bool
	// Loops has, for each name that the $for around the text bind, the expression that
	// gives the list.
	Loops map[string]*expression.Expression
}

// Part is a literal, or an expression if there is one.
type Part struct {
	Literal    string
	Expression *expression.Expression
}

// Hazard is an expression whose value can mean more than a value.
type Hazard struct {
	expression.Place
	Message string
}

// Find returns the hazards in the texts of a template, in the order of the texts. It does
// not report numbers, values that an enum or a pattern narrows, shellQuote outside of
// quotes, and toJson in a configuration.
func Find(parameters []v1alpha1.Parameter, names *expression.Names, texts []Text) []Hazard {
	f := &finder{parameters: parameters, names: names, reads: map[reading][]string{}}
	for _, t := range texts {
		f.judge(t)
	}
	return f.found
}

type finder struct {
	parameters []v1alpha1.Parameter
	names      *expression.Names
	reads      map[reading][]string
	found      []Hazard
}

// reading is an expression in a kind of text.
type reading struct {
	of *expression.Expression
	in textKind
}

// textKind is a kind of text in which a value can mean more than a value.
type textKind string

const (
	shellScript   textKind = "a shell script"
	configuration textKind = "the text of a configuration"
)

// quoting says how an author keeps a value one value in each kind of text. JSON does not
// do in a shell, which runs $(…) inside JSON's quotes.
var quoting = map[textKind]string{
	shellScript:   "${shellQuote(…)} outside all quotes",
	configuration: "${toJson(…)} if it is JSON or YAML",
}

// The functions that keep a value one value.
const (
	shellQuote = "shellQuote"
	toJSON     = "toJson"
)

// judge looks at one text.
func (f *finder) judge(t Text) {
	var kind textKind
	switch {
	case t.Script:
		kind = shellScript
	case isConfiguration(t.Parts):
		kind = configuration
	default:
		return
	}
	var quote shellQuotes
	for _, p := range t.Parts {
		switch {
		case p.Expression == nil:
			quote.read(p.Literal)
		case t.Script && quote.open != 0 && p.Expression.Calls(shellQuote):
			f.report(p.Expression, "shellQuote is inside quotes, which its own quotes would end; write ${shellQuote(…)} outside all quotes")
		default:
			f.judgeExpression(p.Expression, kind, t.Loops)
		}
	}
}

func (f *finder) judgeExpression(e *expression.Expression, kind textKind, loops map[string]*expression.Expression) {
	for _, name := range f.read(e, kind) {
		if f.tainted(name, kind, loops) {
			f.report(e, fmt.Sprintf("%s is inside %s, where its value can change the meaning; pass it as an environment variable, or write %s", name, kind, quoting[kind]))
			return
		}
	}
}

func (f *finder) report(e *expression.Expression, message string) {
	f.found = append(f.found, Hazard{Place: e.Place, Message: message})
}

// read returns the names whose values may mean more than a value in a kind of text.
func (f *finder) read(e *expression.Expression, kind textKind) []string {
	r := reading{of: e, in: kind}
	if known, ok := f.reads[r]; ok {
		return known
	}
	if kind == shellScript {
		f.reads[r] = e.Reads(shellQuote)
	} else {
		f.reads[r] = e.Reads(shellQuote, toJSON)
	}
	return f.reads[r]
}

// tainted reports whether a tenant can put any text into a name that an expression
// reads.
func (f *finder) tainted(name string, kind textKind, loops map[string]*expression.Expression) bool {
	of, field, selects := strings.Cut(name, ".")
	switch {
	case of == "params" && selects:
		i := slices.IndexFunc(f.parameters, func(p v1alpha1.Parameter) bool { return p.Name == field })
		return i >= 0 && !tame(f.parameters[i])
	case of == "variables" && selects:
		v := f.names.Variable(field)
		return v != nil && slices.ContainsFunc(f.read(v, kind), func(n string) bool { return f.tainted(n, kind, nil) })
	case of == "values", of == "kubernetes":
		return false // the installer's own, and numbers
	}
	if over, ok := loops[name]; ok {
		return slices.ContainsFunc(f.read(over, kind), func(n string) bool { return n != name && f.tainted(n, kind, loops) })
	}
	return true
}

// isConfiguration reports whether a text looks like a file's: it has lines, or begins
// as JSON or XML does.
func isConfiguration(parts []Part) bool {
	for i, p := range parts {
		literal := p.Literal
		if strings.Contains(strings.TrimSpace(literal), "\n") || p.Expression == nil && strings.Contains(literal, "\n") && len(parts) > i+1 {
			return true
		}
	}
	return strings.HasPrefix(strings.TrimSpace(parts[0].Literal), "{") || strings.HasPrefix(strings.TrimSpace(parts[0].Literal), "[") || strings.HasPrefix(strings.TrimSpace(parts[0].Literal), "<")
}
