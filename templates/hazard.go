package templates

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// reads has the names that an expression reads: parameters as params.NAME, variables as
// variables.NAME, and other names as they are.
type reads struct {
	// unquoted has the names outside of calls of shellQuote, and plain those outside of
	// calls of toJson, too.
	unquoted, plain []string
	// words are the texts that the expression spells out.
	words []string
	// word is set for an expression that gives one word of a shell.
	word bool
}

// in returns the names whose values may mean more than a value in a kind of text.
func (r reads) in(kind textKind) []string {
	if kind == shellScript {
		return r.unquoted
	}
	return r.plain
}

// readsOf looks at an expression as it was parsed.
func readsOf(a *celast.AST) reads {
	r := reads{unquoted: namesIn(a.Expr(), shellQuoteName), plain: namesIn(a.Expr(), shellQuoteName, toJSONName)}
	celast.PreOrderVisit(a.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.LiteralKind {
			if text, ok := e.AsLiteral().Value().(string); ok {
				r.words = append(r.words, text)
			}
		}
	}))
	if top := a.Expr(); top.Kind() == celast.CallKind {
		r.word = top.AsCall().FunctionName() == shellQuoteName
	}
	return r
}

const (
	shellQuoteName = "shellQuote"
	toJSONName     = "toJson"
)

// namesIn returns the names that an expression reads outside of calls of some functions.
func namesIn(root celast.Expr, except ...string) []string {
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

// TextHazards warns of values inside the text of a shell script or of a configuration,
// where they can mean more than a value. It does not warn of numbers, of values that an
// enum or a pattern narrows, of shellQuote, and of toJson in a configuration.
func (t *Template) TextHazards() []Warning {
	h := &hazards{template: t}
	h.walk(t.tree, false, nil)
	return h.found
}

type hazards struct {
	template *Template
	found    []Warning
}

// walk looks at a part of the fragment. script is set for the text of a shell's script;
// loops has, for each name that $for binds, the names that its list is made of.
func (h *hazards) walk(n node, script bool, loops map[string]reads) {
	switch n := n.(type) {
	case *mapping:
		shell := h.runsShell(n)
		for _, e := range n.entries {
			h.walk(e.value, script || shell && (e.key == "command" || e.key == "args"), loops)
		}
	case *sequence:
		for _, it := range n.items {
			below := loops
			if it.loop != nil {
				below = map[string]reads{it.loop.name: it.loop.over.reads}
				for name, r := range loops {
					below[name] = r
				}
			}
			h.walk(it.node, script, below)
		}
	case *text:
		var kind textKind
		switch {
		case script:
			kind = shellScript
		case isConfiguration(n.parts):
			kind = configuration
		default:
			return
		}
		var quote shellQuotes
		for _, p := range n.parts {
			switch {
			case p.expression == nil:
				quote.read(p.literal)
			case script && quote.open != 0 && p.expression.reads.word:
				h.warn(p.expression, "shellQuote stands between quotes, which its own would end; write ${shellQuote(…)} outside all quotes")
			default:
				h.judge(p.expression, kind, loops)
			}
		}
	case *whole:
		if script {
			h.judge(n.expression, shellScript, loops)
		}
	}
}

// shellQuotes follows a shell's script through its quotes.
type shellQuotes struct {
	open    rune // the quote that is open, or 0
	escaped bool
}

func (q *shellQuotes) read(script string) {
	for _, r := range script {
		switch {
		case q.escaped:
			q.escaped = false
		case r == '\\' && q.open != '\'':
			q.escaped = true
		case q.open == 0 && (r == '\'' || r == '"'):
			q.open = r
		case q.open == r:
			q.open = 0
		}
	}
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

func (h *hazards) judge(e *expression, kind textKind, loops map[string]reads) {
	for _, name := range e.reads.in(kind) {
		if h.tainted(name, kind, loops) {
			h.warn(e, fmt.Sprintf("%s stands inside %s, where its value can mean more than a value; pass it as an environment variable, or write %s", name, kind, quoting[kind]))
			return
		}
	}
}

func (h *hazards) warn(e *expression, message string) {
	h.found = append(h.found, Warning{Template: h.template.name, Path: e.at.String(), Line: e.line, Message: message})
}

// tainted reports whether a tenant can put any text into a name that an expression
// reads.
func (h *hazards) tainted(name string, kind textKind, loops map[string]reads) bool {
	of, field, selects := strings.Cut(name, ".")
	switch {
	case of == paramsName && selects:
		i := slices.Index(h.template.parameters.Names(), field)
		return i >= 0 && !tame(h.template.spec.Parameters[i])
	case of == variablesName && selects:
		v := h.template.variables[field]
		return v != nil && slices.ContainsFunc(v.reads.in(kind), func(n string) bool { return h.tainted(n, kind, nil) })
	case of == valuesName:
		return false // the installer's own
	}
	if r, ok := loops[name]; ok {
		return slices.ContainsFunc(r.in(kind), func(n string) bool { return n != name && h.tainted(n, kind, loops) })
	}
	return true
}

// tame reports whether no value of the parameter can mean anything to a shell.
func tame(d v1alpha1.Parameter) bool {
	kind, constraints := d.Type, d.Constraints
	if d.Items != nil {
		kind, constraints = d.Items.Type, d.Items.Constraints
	}
	switch kind {
	case v1alpha1.String:
		return len(constraints.Enum) > 0 || constraints.Pattern != "" && tamePattern(constraints.Pattern)
	case v1alpha1.JSON:
		return false
	}
	return true
}

// tamePattern reports whether all that a pattern matches is made of characters that
// mean nothing to a shell.
func tamePattern(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && tameRegexp(re)
}

func tameRegexp(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if !isTame(r) {
				return false
			}
		}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i+1] > 'z' {
				return false
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if !isTame(r) {
					return false
				}
			}
		}
	}
	return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !tameRegexp(sub) })
}

func isTame(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
}

var shells = []string{"sh", "bash", "ash", "dash", "zsh", "ksh"}

// runsShell reports whether a container, or a probe, gives a script to a shell.
func (h *hazards) runsShell(m *mapping) bool {
	shell, dashC := false, false
	word := func(v any) {
		text, _ := v.(string)
		shell = shell || slices.Contains(shells, text[strings.LastIndexByte(text, '/')+1:])
		dashC = dashC || len(text) < 6 && strings.HasPrefix(text, "-") && strings.HasSuffix(text, "c")
	}
	for _, e := range m.entries {
		if e.key != "command" && e.key != "args" {
			continue
		}
		switch v := e.value.(type) {
		case *whole: // a list by one expression
			for _, text := range v.expression.reads.words {
				word(text)
			}
		case *constant:
			items, _ := v.value.([]any)
			for _, item := range items {
				word(item)
			}
		case *sequence:
			for _, it := range v.items {
				if c, ok := it.node.(*constant); ok {
					word(c.value)
				}
			}
		}
	}
	return shell && dashC
}

// isConfiguration reports whether a text looks like a file's: it has lines, or begins
// as JSON or XML does.
func isConfiguration(parts []textPart) bool {
	for i, p := range parts {
		literal := p.literal
		if strings.Contains(strings.TrimSpace(literal), "\n") || p.expression == nil && strings.Contains(literal, "\n") && len(parts) > i+1 {
			return true
		}
	}
	return strings.HasPrefix(strings.TrimSpace(parts[0].literal), "{") || strings.HasPrefix(strings.TrimSpace(parts[0].literal), "[") || strings.HasPrefix(strings.TrimSpace(parts[0].literal), "<")
}
