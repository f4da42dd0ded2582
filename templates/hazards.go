package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// TextHazards warns of values inside the text of a shell script or of a configuration,
// where they can mean more than a value. It does not warn of numbers, of conditions, of values of
// an enum, of shellQuote, and of toJson in a configuration.
func (t *Template) TextHazards() []Warning {
	f := &finder{template: t, clean: map[[2]string]bool{}}
	f.texts(t.tree, false, nil)
	for _, file := range t.files {
		f.texts(file.text, false, nil)
	}
	f.paths(t.tree)
	return f.warnings
}

// finder finds the hazards in the texts of a template.
type finder struct {
	template *Template
	// clean has the variables without a tenant's text, each with a kind of text. It bounds the search, since a
	// variable may read two that read two others.
	clean    map[[2]string]bool
	warnings []Warning
}

func (f *finder) report(at expression.Place, message string) {
	f.warnings = append(f.warnings, Warning{Template: f.template.name, Path: at.At.String(), Line: at.Line, Message: message})
}

// paths reports the items of environments that join a text to PATH.
func (f *finder) paths(n node) {
	switch n := n.(type) {
	case *mapping:
		for _, e := range n.entries {
			if name, ok := e.value.(*constant); ok && e.key == "name" && name.value == "PATH" && n.says.Join != nil {
				f.report(n.Place, "joins a text to PATH, which the image sets: Pillion does not see that value, so the text takes its place, and programs are not found; use another variable, or set all of PATH")
			}
			f.paths(e.value)
		}
	case *sequence:
		for _, it := range n.items {
			f.paths(it.node)
		}
	}
}

// texts checks the texts with expressions in a part of the fragment. script is set for the text of a shell's
// script. loops has the list expression of each name that $for binds.
func (f *finder) texts(n node, script bool, loops map[string]*expression.Expression) {
	switch n := n.(type) {
	case *mapping:
		shell := runsShell(command(n))
		for _, e := range n.entries {
			f.texts(e.value, script || shell && isCommand(e), loops)
		}
	case *sequence:
		for _, it := range n.items {
			below := loops
			if it.loop != nil {
				below = map[string]*expression.Expression{it.loop.name: it.loop.over}
				maps.Copy(below, loops)
			}
			f.texts(it.node, script, below)
		}
	case *text:
		f.checkText(n.parts, script, loops)
	case *whole:
		if script {
			f.checkText([]textPart{{expression: n.expression}}, script, loops)
		}
	}
}

func isCommand(e entry) bool { return e.key == "command" || e.key == "args" }

// command returns the literal words of a container's or a probe's command.
func command(m *mapping) []textPart {
	var words []textPart
	literal := func(v any) {
		if word, ok := v.(string); ok {
			words = append(words, textPart{literal: word})
		}
	}
	for _, e := range m.entries {
		if !isCommand(e) {
			continue
		}
		switch v := e.value.(type) {
		case *whole: // a list by one expression
			words = append(words, textPart{expression: v.expression})
		case *constant:
			items, _ := v.value.([]any)
			for _, item := range items {
				literal(item)
			}
		case *sequence:
			for _, it := range v.items {
				if c, ok := it.node.(*constant); ok {
					literal(c.value)
				}
			}
		}
	}
	return words
}

// textKind is a kind of text in which a value can mean more than a value.
type textKind string

const (
	shellScript   textKind = "a shell script"
	configuration textKind = "the text of a configuration"
)

// quoting has the advice for each kind of text. JSON is not safe in a shell, which runs $(…) inside JSON's
// quotes.
var quoting = map[textKind]string{
	shellScript:   "${shellQuote(…)} outside all quotes",
	configuration: "${toJson(…)} if it is JSON or YAML",
}

// The functions that quote a value.
const (
	shellQuote = "shellQuote"
	toJSON     = "toJson"
)

// checkText checks one text.
func (f *finder) checkText(parts []textPart, script bool, loops map[string]*expression.Expression) {
	var kind textKind
	switch {
	case script:
		kind = shellScript
	case isConfiguration(parts):
		kind = configuration
	default:
		return
	}
	var quote shellQuotes
	for _, p := range parts {
		switch {
		case p.expression == nil:
			quote.read(p.literal)
		case script && quote.open != 0 && p.expression.Calls(shellQuote):
			f.report(p.expression.Place, "shellQuote is inside quotes, which its own quotes would end; write ${shellQuote(…)} outside all quotes")
		default:
			f.checkExpression(p.expression, kind, loops)
		}
	}
}

func (f *finder) checkExpression(e *expression.Expression, kind textKind, loops map[string]*expression.Expression) {
	for _, name := range readIn(kind, e) {
		if f.tainted(name, kind, loops) {
			f.report(e.Place, fmt.Sprintf("%s is inside %s, where its value can change the meaning; pass it as an environment variable, or write %s", name, kind, quoting[kind]))
			return
		}
	}
}

// readIn returns the names that an expression inserts and whose values may mean more than a value in a kind of
// text.
func readIn(kind textKind, e *expression.Expression) []string {
	if kind == shellScript {
		return e.Inserts(shellQuote)
	}
	return e.Inserts(shellQuote, toJSON)
}

// takesAnyText reports whether a value of the parameter may be any text.
func takesAnyText(d v1alpha1.Parameter) bool {
	kind, enum := d.Type, d.Enum
	if d.Items != nil {
		kind, enum = d.Items.Type, d.Items.Enum
	}
	return kind == v1alpha1.String && len(enum) == 0 || kind == v1alpha1.JSON
}

// tainted reports whether a tenant can put any text into a name that an expression
// reads.
func (f *finder) tainted(name string, kind textKind, loops map[string]*expression.Expression) bool {
	of, field, selects := strings.Cut(name, ".")
	switch {
	case of == "params" && selects:
		i := slices.IndexFunc(f.template.spec.Parameters, func(p v1alpha1.Parameter) bool { return p.Name == field })
		return i >= 0 && takesAnyText(f.template.spec.Parameters[i])
	case of == "variables" && selects:
		v, known := f.template.names.Variable(field), [2]string{field, string(kind)}
		if v == nil || f.clean[known] {
			return false
		}
		f.clean[known] = !slices.ContainsFunc(readIn(kind, v), func(n string) bool { return f.tainted(n, kind, nil) })
		return !f.clean[known]
	case of == "values":
		return false // the installer's own
	}
	if over, ok := loops[name]; ok {
		return slices.ContainsFunc(readIn(kind, over), func(n string) bool { return n != name && f.tainted(n, kind, loops) })
	}
	return true
}

// isConfiguration reports whether a text looks like a file: it has several lines, or begins like JSON or XML.
func isConfiguration(parts []textPart) bool {
	for i, p := range parts {
		literal := p.literal
		if strings.Contains(strings.TrimSpace(literal), "\n") || p.expression == nil && strings.Contains(literal, "\n") && len(parts) > i+1 {
			return true
		}
	}
	return strings.HasPrefix(strings.TrimSpace(parts[0].literal), "{") || strings.HasPrefix(strings.TrimSpace(parts[0].literal), "[") || strings.HasPrefix(strings.TrimSpace(parts[0].literal), "<")
}

var shells = []string{"sh", "bash", "ash", "dash", "zsh", "ksh"}

// runsShell reports whether a command, with its arguments, passes a script to a shell. An expression counts for
// each literal word in it.
func runsShell(command []textPart) bool {
	shell, dashC := false, false
	word := func(text string) {
		shell = shell || slices.Contains(shells, text[strings.LastIndexByte(text, '/')+1:])
		dashC = dashC || len(text) < 6 && strings.HasPrefix(text, "-") && strings.HasSuffix(text, "c")
	}
	for _, p := range command {
		if p.expression == nil {
			word(p.literal)
			continue
		}
		for _, text := range p.expression.Words() {
			word(text)
		}
	}
	return shell && dashC
}

// shellQuotes tracks the quotes of a shell's script.
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
